"""How good a predictor is on domains that it has never seen."""
