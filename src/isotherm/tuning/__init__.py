"""Settings found by a look at the posterior: mode, coordinates, gradient, step."""
