"""The linear-SEM tasks of the paper on invariant risk minimisation (§5.1)."""
