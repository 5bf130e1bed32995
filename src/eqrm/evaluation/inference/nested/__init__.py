"""Domains inside groups, such as the wards of hospitals."""
