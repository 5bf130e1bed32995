"""What measured risks say about unseen domains."""
