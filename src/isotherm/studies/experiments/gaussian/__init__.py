"""The paper's experiment `isotherm reproduce gaussian`."""
