"""Requirements on decisions: which model keeps most where new domains must meet them."""
