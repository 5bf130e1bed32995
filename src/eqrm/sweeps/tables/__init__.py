"""The tables of a sweep: from records to cells, and from cells to text and pictures."""
