"""SGHMC and SGNHT of other libraries beside isotherm's."""
