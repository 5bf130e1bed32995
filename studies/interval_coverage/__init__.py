"""How often intervals hold, in simulated worlds: means, quantiles, superquantiles, differences."""
