"""How often the statements about domains in time hold: simulated worlds with a known truth."""
