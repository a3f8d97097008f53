"""The paper's experiment `isotherm reproduce drbm`."""
