"""Appendix G.1.2: which predictor has minimal, invariant risk when some σ's change."""
