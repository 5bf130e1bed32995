"""Kernels for GPUs, in Triton, that objectives are made of."""
