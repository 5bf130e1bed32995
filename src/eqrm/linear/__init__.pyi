from .domain_moments import DomainMoments as DomainMoments
from .linear_model import LinearModel as LinearModel
from .linear_qrm import Frontier as Frontier
from .linear_qrm import LinearERM as LinearERM
from .linear_qrm import LinearIRM as LinearIRM
from .linear_qrm import LinearQRM as LinearQRM
from .linear_qrm import LinearVREx as LinearVREx
from .solving.newton import Optimality as Optimality
