"""scikit-learn estimators, and what gradient boosting needs of the domains' risks."""

from eqrm.estimators.classifier import QRMClassifier
from eqrm.estimators.model_files import load_model, read_model, save_model
from eqrm.estimators.regressor import QRMRegressor

__all__ = ["QRMClassifier", "QRMRegressor", "load_model", "read_model", "save_model"]
