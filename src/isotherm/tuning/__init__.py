"""The warm-up: chooses starts, coordinates, gradient, batch size and step size for a posterior."""
