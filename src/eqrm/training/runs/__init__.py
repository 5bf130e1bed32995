"""A run and its folder: configuration, checkpoints, loading."""
