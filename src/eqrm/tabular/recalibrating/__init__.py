"""The job of ``eqrm recalibrate``."""
