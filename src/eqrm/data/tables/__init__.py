"""Tables: reading files and frames, columns and their kinds, what the target asks for."""
