"""Known posteriors, and instruments that measure samplers on them."""
