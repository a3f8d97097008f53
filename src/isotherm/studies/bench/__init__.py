"""`isotherm bench`: the cost of a step, beside the accuracy of its samples."""
