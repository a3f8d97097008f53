"""The experiment of section 4.2, run by `isotherm reproduce logistic`."""
