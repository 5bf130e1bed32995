"""Where the runs of a sweep are trained: one thin interface, an engine per kind of machine."""
