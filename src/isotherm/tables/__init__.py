"""Regression from tables: reading, design matrices, families and forecasts."""
