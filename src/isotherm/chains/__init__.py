"""Chains: the compiled loop, the host that drives it, and what is recorded of a run."""
