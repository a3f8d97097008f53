"""The experiment of section 4.3, run by `isotherm reproduce drbm`."""
