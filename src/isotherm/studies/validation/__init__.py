"""Measures samplers on posteriors that are known exactly."""
