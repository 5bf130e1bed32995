from .base import Check as Check
from .base import Outcome as Outcome
from .base import Picture as Picture
from .base import Reproduction as Reproduction
from .base import Table as Table
from .registry import reproduction as reproduction
from .registry import reproduction_names as reproduction_names
from .report import Report as Report
