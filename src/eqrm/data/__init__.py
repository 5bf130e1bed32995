"""Where (x, y, domain) come from: the contract, batches by domain, and datasets by name."""

from eqrm.data.domains import DomainData, Rows, Splits
from eqrm.data.registry import dataset
from eqrm.data.roots import data_root
from eqrm.data.samplers import DomainBatches

__all__ = ["DomainBatches", "DomainData", "Rows", "Splits", "data_root", "dataset"]
