"""Many runs of one small network, trained together."""
