"""What the priors of a regression say before the target is seen."""
