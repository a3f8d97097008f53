"""Judging how far the draws of a run can be trusted."""
