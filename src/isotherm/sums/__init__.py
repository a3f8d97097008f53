"""Sums over all rows."""
