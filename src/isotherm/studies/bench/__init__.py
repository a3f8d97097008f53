"""What a step costs, beside how right its answer is: `isotherm bench`."""
