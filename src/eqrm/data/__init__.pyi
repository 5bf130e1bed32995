from .batches import DomainBatches as DomainBatches
from .datasets.flights import load_flights as load_flights
from .datasets.registry import dataset as dataset
from .domain_data import DomainData as DomainData
from .domain_data import Rows as Rows
from .domain_data import Splits as Splits
from .fetching.data_root import data_root as data_root
from .tables.table import Table as Table
