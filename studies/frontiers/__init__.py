"""Real tables with domains: mean risk against quantile, method by method."""
