from .domain_moments import DomainMoments as DomainMoments
from .linear_qrm import LinearERM as LinearERM
from .linear_qrm import LinearIRM as LinearIRM
from .linear_qrm import LinearQRM as LinearQRM
from .linear_qrm import LinearVREx as LinearVREx
