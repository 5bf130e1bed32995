"""Gradient boosting for a level: XGBoost and LightGBM."""
