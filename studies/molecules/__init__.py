"""Molecules by scaffold: the paper's experiment on OGB-MolPCBA, on the molecules of HIV and MUV."""
