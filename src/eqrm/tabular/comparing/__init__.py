"""Models, runs and predictions side by side (``eqrm compare``)."""
