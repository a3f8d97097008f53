"""Formulas of regressions on tables: `y ~ s(age) + sex * km + (1 + km | region)`."""
