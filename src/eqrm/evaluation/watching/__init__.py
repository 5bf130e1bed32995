"""A watch over a certificate that is kept in a file: what ``eqrm watch`` does."""
