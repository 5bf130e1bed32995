"""Simulated coverage of certificates for nested domains."""
