# One model by brms: the posterior of isotherm's model, sampled by Stan.

# Debian's package of Boost has no headers of its own: they are the system's.
if (!nzchar(system.file("include", package = "BH"))) rstan::rstan_options(boost_lib = "/usr/include")

FAMILIES <- list(linear = gaussian(), binomial = binomial(), logistic = bernoulli(), poisson = poisson(),
                 `negative-binomial` = negbinomial())

# Return the names of a design's columns in isotherm's way, "period[T.2]", in the order of brms's names.
column_names <- function(formula, rows) {
  right <- lme4::nobars(as.formula(sub("^.*~", "~", formula)))
  columns <- colnames(model.matrix(right, rows))
  part <- function(text) {
    for (factor in names(rows)[vapply(rows, is.factor, TRUE)]) {
      level <- substring(text, nchar(factor) + 1)
      if (startsWith(text, factor) && level %in% levels(rows[[factor]])) return(sprintf("%s[T.%s]", factor, level))
    }
    text
  }
  parts <- lapply(strsplit(columns, ":", fixed = TRUE), function(found) vapply(found, part, ""))
  sub("(Intercept)", "Intercept", vapply(parts, paste, "", collapse = ":"), fixed = TRUE)
}

# Return the name of a parameter in isotherm's way; NA for what is no parameter of the model.
parameter_name <- function(variable, names) {
  coefficients <- function(text) paste(unlist(names[strsplit(text, "__", fixed = TRUE)[[1]]]), collapse = ",")
  if (grepl("^b_", variable)) return(names[[sub("^b_", "", variable)]])
  if (variable == "sigma") return("sigma")
  if (variable == "shape") return("dispersion")
  if (grepl("^(sd|cor)_", variable)) {
    group <- sub("__.*", "", variable)
    return(sprintf("%s[%s]", group, coefficients(sub("^.*?__", "", variable))))
  }
  if (grepl("^r_", variable)) {
    group <- sub("\\[.*", "", variable)
    inside <- sub("\\]$", "", sub("^[^[]*\\[", "", variable))
    level <- sub(",[^,]*$", "", inside)
    if (grepl(":", group, fixed = TRUE)) level <- gsub("_", ":", level, fixed = TRUE)
    return(sprintf("%s[%s,%s]", group, level, names[[sub("^.*,", "", inside)]]))
  }
  NA_character_
}

# The error of the sd is that of the mean squared deviation: `posterior::mcse_sd` assumes normal draws, and is too small
# where a scale has a long tail.
summarised <- function(draws) {
  squares <- posterior::mcse_mean((draws - mean(draws))^2)
  quantiles <- quantile(draws, c(0.05, 0.95), names = FALSE)
  list(mean = mean(draws), sd = sd(draws), mcse_mean = posterior::mcse_mean(draws),
       mcse_sd = squares / (2 * sd(draws)), ess = posterior::ess_mean(draws), ess_bulk = posterior::ess_bulk(draws),
       rhat = posterior::rhat(draws), q5 = quantiles[1], q95 = quantiles[2])
}

fit_brms <- function(name, rows, seed) {
  spec <- MODELS[[name]]
  formula <- brms::bf(as.formula(spec$formula))
  family <- FAMILIES[[spec$family]]
  design <- brms::make_standata(formula, rows, family)$X
  target <- rows[[all.vars(as.formula(spec$formula))[1]]]
  names <- as.list(setNames(column_names(spec$formula, rows), colnames(design)))
  defaults <- brms::get_prior(formula, rows, family)
  terms <- defaults[defaults$class == "sd" & nzchar(defaults$coef), c("group", "coef")]
  scales <- prior_scales(design, target, spec$family)
  priors <- brms_priors(scales, names, terms, spec$family)
  dispersion <- if (spec$family == "negative-binomial") brms::stanvar(scode = DISPERSION, block = "model")
  started <- proc.time()[["elapsed"]]
  compiled <- brms::brm(formula, rows, family, prior = priors$made, stanvars = dispersion, chains = 0,
                        silent = 2, refresh = 0)
  compilation <- proc.time()[["elapsed"]] - started
  started <- proc.time()[["elapsed"]]
  fit <- update(compiled, recompile = FALSE, chains = 4, cores = 2, warmup = 1000, iter = 1000 + spec$iterations,
                seed = seed, control = list(adapt_delta = spec$adapt_delta), silent = 2, refresh = 0)
  wall <- proc.time()[["elapsed"]] - started
  draws <- posterior::as_draws_array(fit)
  parameters <- list()
  for (variable in posterior::variables(draws)) {
    called <- parameter_name(variable, names)
    if (is.na(called) || (startsWith(variable, "r_") && !spec$effects)) next
    values <- posterior::extract_variable_matrix(draws, variable)
    if (variable == "shape") values <- 1 / values
    parameters[[called]] <- summarised(values)
  }
  steps <- brms::nuts_params(fit)
  list(
    priors = c(priors$said, list(scales = list(m = scales$m, u = scales$u,
      s = setNames(as.list(scales$columns), unlist(names[names(scales$columns)]))))),
    parameters = parameters,
    checks = list(chains = 4, draws = 4 * spec$iterations, adapt_delta = spec$adapt_delta, seed = seed,
                  divergences = sum(steps$Value[steps$Parameter == "divergent__"]),
                  worst_rhat = max(vapply(parameters, `[[`, 0, "rhat")),
                  least_ess = min(vapply(parameters, `[[`, 0, "ess_bulk"))),
    seconds = list(compile = compilation, sample = wall,
                   chains = sum(rstan::get_elapsed_time(fit$fit)))
  )
}
