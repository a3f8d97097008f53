"""Compares SGHMC and SGNHT of other libraries with isotherm's."""
