"""Models with known answers, and models of the paper's experiments."""
