"""Domains that come one after the other: spells, recent domains, online bounds, the watch."""
