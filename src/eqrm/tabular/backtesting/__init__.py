"""The job of ``eqrm backtest``."""
