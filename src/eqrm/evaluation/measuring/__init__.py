"""From predictions of any origin to the measured risk of every domain."""
