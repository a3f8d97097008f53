# Reference answers of the published models: posteriors by brms with isotherm's priors, and lme4, glmmTMB or mgcv.
#
#   Rscript benchmarks/published/reference.R [NAME ...] [--out=tests/published] [--large=out/published] [--seed=1]
#       [--brms=no]
#
# Each model replaces its entry of reference.json. export.R makes the data. Each compiles for half a minute on an idle
# machine; `--brms=no` leaves the posterior out, and the entry then has the estimates alone.

suppressMessages({ library(brms); library(jsonlite) })
here <- dirname(sub("--file=", "", grep("--file=", commandArgs(), value = TRUE)))
for (file in c("models.R", "priors.R", "by_brms.R", "by_others.R")) source(file.path(here, file))

rounded <- function(x) if (is.list(x)) lapply(x, rounded) else if (is.numeric(x)) signif(x, 7) else x
as_json <- function(x) toJSON(x, auto_unbox = TRUE, digits = I(15), null = "null")

# One line for each parameter: a difference of two versions of the file is then a list of parameters.
written <- function(x, depth = 0) {
  leaf <- !is.list(x) || is.null(names(x)) || !any(vapply(x, function(y) is.list(y) || length(y) > 1, TRUE))
  if (leaf) return(as_json(x))
  margin <- strrep("  ", depth + 1)
  lines <- sprintf("%s%s: %s", margin, vapply(names(x), as_json, ""), vapply(x, written, "", depth = depth + 1))
  paste0("{\n", paste(lines, collapse = ",\n"), "\n", strrep("  ", depth), "}")
}

versions <- function() {
  packages <- c("brms", "rstan", "lme4", "glmmTMB", "mgcv")
  c(R = paste(R.version$major, R.version$minor, sep = "."),
    vapply(packages, function(package) as.character(packageVersion(package)), ""))
}

arguments <- commandArgs(trailingOnly = TRUE)
folders <- c(option(arguments, "out", "tests/published"), option(arguments, "large", "out/published"))
path <- file.path(folders[1], "reference.json")
for (name in chosen(arguments)) {
  spec <- MODELS[[name]]
  rows <- read_rows(name, folders)
  entry <- list(formula = spec$formula, family = spec$family, rows = nrow(rows),
                data = sub("\\..*", "", basename(data_file(name, folders[1]))), categories = as.list(spec$factors))
  if (spec$by == "brms" && option(arguments, "brms", "yes") != "no") {
    found <- fit_brms(name, rows, as.integer(option(arguments, "seed", "1")))
    entry <- c(entry, list(priors = found$priors, brms = found$parameters, checks = found$checks,
                           seconds = list(brms = found$seconds)))
  }
  if (spec$by == "mgcv") entry$mgcv <- fit_mgcv(name, rows) else entry$lme4 <- fit_mixed(name, rows)
  entry$versions <- as.list(versions())
  all <- if (file.exists(path)) read_json(path) else list()
  all[[name]] <- entry
  all <- all[intersect(names(MODELS), names(all))]
  writeLines(written(rounded(all)), path)
  cat(sprintf("%s: %s\n", name, as_json(rounded(c(entry$checks, entry$seconds$brms, entry$lme4$seconds)))))
}
