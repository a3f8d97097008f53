"""Chains: the compiled loop, the host code that drives it, and the record of a run."""
