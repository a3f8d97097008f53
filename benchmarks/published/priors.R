# The priors of isotherm's regressions, written for brms.

population_sd <- function(x) sqrt(mean((x - mean(x))^2))

# Return what a coefficient of this column is measured in: the distance of two values, or the standard deviation.
column_scale <- function(x) {
  values <- unique(x)
  if (length(values) == 2) abs(diff(values)) else population_sd(x)
}

# Return the scales that the priors use: m and u of the target, and those of the columns of the design.
prior_scales <- function(design, target, family) {
  u <- if (family == "linear") population_sd(target) else 1
  m <- switch(family, linear = mean(target), poisson = , `negative-binomial` = log(mean(target)), 0)
  slopes <- setdiff(colnames(design), "Intercept")
  list(m = m, u = u, columns = vapply(slopes, function(name) column_scale(design[, name]), 0))
}

# Return the priors for brms, and the same by the names of isotherm. `terms` has a row (group, coef) for each sd.
brms_priors <- function(scales, names, terms, family) {
  normal <- function(m, s) sprintf("normal(%.10g, %.10g)", m, s)
  width <- function(coef) 2.5 * scales$u / (if (coef == "Intercept") 1 else scales$columns[[coef]])
  made <- set_prior(normal(scales$m, 5 * scales$u), class = "Intercept")
  said <- list(`Intercept (centred columns)` = normal(scales$m, 5 * scales$u))
  for (coef in names(scales$columns)) {
    made <- made + set_prior(normal(0, width(coef)), class = "b", coef = coef)
    said[[names[[coef]]]] <- normal(0, width(coef))
  }
  for (i in seq_len(nrow(terms))) {
    group <- terms$group[i]
    made <- made + set_prior(normal(0, width(terms$coef[i])), class = "sd", group = group, coef = terms$coef[i])
    said[[sprintf("sd_%s[%s]", group, names[[terms$coef[i]]])]] <- paste0("half-", normal(0, width(terms$coef[i])))
  }
  for (group in unique(terms$group[duplicated(terms$group)])) {
    made <- made + set_prior("lkj(1)", class = "cor", group = group)
    said[[paste0("cor_", group)]] <- "lkj(1)"
  }
  if (family == "linear") {
    made <- made + set_prior(sprintf("exponential(%.10g)", 1 / scales$u), class = "sigma")
    said$sigma <- sprintf("exponential with mean %.10g", scales$u)
  }
  if (family == "negative-binomial") { # of 1/shape, see DISPERSION
    made <- made + set_prior("", class = "shape")
    said$dispersion <- "square root half-normal(0, 1)"
  }
  list(made = made, said = said)
}

# sqrt(1/shape) half-normal(0, 1), with the derivative of the square root with respect to `shape`.
DISPERSION <- "target += std_normal_lpdf(inv_sqrt(shape)) - 1.5 * log(shape);"
