from .base import Report as Report
from .base import Reproduction as Reproduction
from .outcome import Check as Check
from .outcome import Outcome as Outcome
from .outcome import Picture as Picture
from .outcome import ResultTable as ResultTable
from .registry import reproduction as reproduction
from .registry import reproduction_names as reproduction_names
