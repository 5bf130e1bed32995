"""Figure 3 A-D and the CDF figure of appendix G.1.1: linear regression over 1000 domains."""
