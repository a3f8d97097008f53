"""The experiment of section 4.1, run by `isotherm reproduce gaussian`."""
