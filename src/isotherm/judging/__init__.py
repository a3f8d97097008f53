"""How far a run can be trusted."""
