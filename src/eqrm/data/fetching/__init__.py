"""Where data files are: the data root, downloads, archives, the cache."""
