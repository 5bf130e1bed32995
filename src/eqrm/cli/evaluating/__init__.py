"""The commands that measure models: ``eqrm evaluate`` and ``eqrm compare``."""
