"""What measured risks say about domains that nobody has seen."""
