"""Linear structural causal models, interventions and the paper's worlds."""
