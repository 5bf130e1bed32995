"""From a table to models, a report and predictions."""
