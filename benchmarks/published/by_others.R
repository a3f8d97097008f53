# The same models by lme4 or glmmTMB (REML where there is a normal error), and the smooth ones by mgcv.

estimated <- function(estimate, se = NULL) if (is.null(se)) list(estimate = estimate) else list(estimate = estimate, se = se)

# `cask:batch` of lme4 is `batch:cask` where the formula has batch/cask.
group_name <- function(group, formula) {
  parts <- strsplit(group, ":", fixed = TRUE)[[1]]
  turned <- paste(rev(parts), collapse = ":")
  if (length(parts) > 1 && grepl(paste(rev(parts), collapse = "/"), formula, fixed = TRUE)) turned else group
}

mixed <- function(spec, rows) {
  formula <- as.formula(spec$lme4)
  switch(spec$family,
    linear = lme4::lmer(formula, rows),
    `negative-binomial` = glmmTMB::glmmTMB(formula, rows, family = glmmTMB::nbinom2),
    lme4::glmer(formula, rows, family = if (spec$family == "poisson") poisson else binomial))
}

fit_mixed <- function(name, rows) {
  spec <- MODELS[[name]]
  started <- proc.time()[["elapsed"]]
  fit <- mixed(spec, rows)
  seconds <- proc.time()[["elapsed"]] - started
  by_tmb <- inherits(fit, "glmmTMB")
  table <- if (by_tmb) coef(summary(fit))$cond else coef(summary(fit))
  columns <- column_names(spec$formula, rows)
  called <- setNames(columns, rownames(table))
  parameters <- list()
  for (row in rownames(table)) parameters[[called[[row]]]] <- estimated(table[row, 1], table[row, 2])
  components <- if (by_tmb) lme4::VarCorr(fit)$cond else lme4::VarCorr(fit)
  for (group in names(components)) {
    sds <- attr(components[[group]], "stddev")
    correlations <- attr(components[[group]], "correlation")
    turned <- group_name(group, spec$formula)
    for (i in seq_along(sds)) {
      parameters[[sprintf("sd_%s[%s]", turned, called[[names(sds)[i]]])]] <- estimated(sds[[i]])
      for (j in seq_len(i - 1)) {
        pair <- sprintf("cor_%s[%s,%s]", turned, called[[names(sds)[j]]], called[[names(sds)[i]]])
        parameters[[pair]] <- estimated(correlations[i, j])
      }
    }
  }
  if (spec$family == "linear") parameters$sigma <- estimated(sigma(fit))
  if (by_tmb) parameters$dispersion <- estimated(1 / sigma(fit))
  if (spec$effects && !by_tmb) parameters <- c(parameters, effects_of(fit, spec, called))
  list(software = if (by_tmb) "glmmTMB" else "lme4", parameters = parameters, log_likelihood = as.numeric(logLik(fit)),
       singular = if (!by_tmb) lme4::isSingular(fit), seconds = seconds)
}

effects_of <- function(fit, spec, called) {
  modes <- lme4::ranef(fit, condVar = TRUE)
  parameters <- list()
  for (group in names(modes)) {
    turned <- group_name(group, spec$formula)
    variances <- attr(modes[[group]], "postVar")
    for (level in seq_len(nrow(modes[[group]]))) for (j in seq_along(modes[[group]])) {
      label <- rownames(modes[[group]])[level]
      if (turned != group) label <- paste(rev(strsplit(label, ":", fixed = TRUE)[[1]]), collapse = ":")
      pair <- sprintf("r_%s[%s,%s]", turned, label, called[[names(modes[[group]])[j]]])
      parameters[[pair]] <- estimated(modes[[group]][level, j], sqrt(variances[j, j, level]))
    }
  }
  parameters
}

# Return the fitted curve at 20 points from the least to the greatest x, on the scale of the linear predictor. Its
# standard error includes that of the smoothness.
fit_mgcv <- function(name, rows) {
  spec <- MODELS[[name]]
  formula <- as.formula(sub(sprintf("s(%s)", spec$s), sprintf("s(%s, bs = \"cr\", k = 10)", spec$s), spec$formula,
                            fixed = TRUE))
  started <- proc.time()[["elapsed"]]
  fit <- mgcv::gam(formula, if (spec$family == "poisson") poisson() else gaussian(), rows, method = "REML")
  seconds <- proc.time()[["elapsed"]] - started
  at <- seq(min(rows[[spec$s]]), max(rows[[spec$s]]), length.out = 20)
  curve <- predict(fit, setNames(data.frame(at), spec$s), se.fit = TRUE, unconditional = TRUE)
  list(software = "mgcv", formula = paste(deparse(formula), collapse = " "), column = spec$s,
       curve = list(at = at, mean = as.numeric(curve$fit), se = as.numeric(curve$se.fit)),
       effective_degrees_of_freedom = sum(fit$edf), sigma = if (spec$family == "linear") sqrt(fit$sig2),
       seconds = seconds)
}
