"""The paper's experiment `isotherm reproduce logistic`."""
