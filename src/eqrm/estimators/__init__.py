"""scikit-learn estimators, and what gradient boosting needs of the domains' risks."""
