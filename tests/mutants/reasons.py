"""Mutants that no test can notice, since the library does the same with them, each with the reason."""

EQUIVALENT: dict[str, str] = {}
