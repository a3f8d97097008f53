"""How well a regression describes rows whose target is known: by group, as a share of variance, and out of sample."""
