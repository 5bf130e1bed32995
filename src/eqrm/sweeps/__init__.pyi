from .records import read_records as read_records
from .status import sweep_status as sweep_status
from .tables.tabulating import sweep_tables as sweep_tables
