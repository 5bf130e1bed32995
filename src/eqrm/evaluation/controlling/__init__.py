"""A requirement turned into an operating point: the setting that holds on new domains."""
