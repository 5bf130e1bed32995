"""Where (x, y, domain) come from: the contract, batches by domain, datasets by name, tables."""

from eqrm.data.domains import DomainData, Rows, Splits
from eqrm.data.flights import load_flights
from eqrm.data.registry import dataset
from eqrm.data.roots import data_root
from eqrm.data.samplers import DomainBatches
from eqrm.data.tables import Table

__all__ = [
    "DomainBatches",
    "DomainData",
    "Rows",
    "Splits",
    "Table",
    "data_root",
    "dataset",
    "load_flights",
]
