"""Studies of the library itself: the paper's experiments, validation on known posteriors, benchmarks."""
