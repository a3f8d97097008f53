"""Simulation-based calibration: do posterior intervals cover the truth as often as they should?"""
