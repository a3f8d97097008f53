"""Simulation-based calibration: do posterior intervals hold what they promise?"""
