"""The quantile of the kernel density estimate: sums, root, gradient."""
