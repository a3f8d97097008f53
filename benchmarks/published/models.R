# The published models: formula, family of isotherm, columns that are categories, and the data set that has them.

model <- function(formula, family, package, factors, lme4 = formula, iterations = 5000, adapt_delta = 0.95,
                  effects = TRUE, by = "brms", data = NULL, s = NULL) {
  list(formula = formula, family = family, package = package, factors = factors, lme4 = lme4,
       iterations = iterations, adapt_delta = adapt_delta, effects = effects, by = by, data = data, s = s)
}

MODELS <- list(
  sleepstudy = model("Reaction ~ Days + (Days | Subject)", "linear", "lme4", "Subject"),
  dyestuff = model("Yield ~ 1 + (1 | Batch)", "linear", "lme4", "Batch", iterations = 8000, adapt_delta = 0.99),
  penicillin = model("diameter ~ 1 + (1 | plate) + (1 | sample)", "linear", "lme4", c("plate", "sample"),
                     iterations = 8000, adapt_delta = 0.99),
  pastes = model("strength ~ 1 + (1 | batch/cask)", "linear", "lme4", c("batch", "cask"), iterations = 12000,
                 adapt_delta = 0.99),
  orthodont = model("distance ~ age*Sex + (age | Subject)", "linear", "nlme", c("Sex", "Subject"), iterations = 12000,
                    adapt_delta = 0.99),
  machines = model("score ~ Machine + (1 | Worker/Machine)", "linear", "nlme", c("Machine", "Worker"),
                   iterations = 8000, adapt_delta = 0.99),
  cbpp = model("incidence | trials(size) ~ period + (1 | herd)", "binomial", "lme4", c("herd", "period"),
               lme4 = "cbind(incidence, size - incidence) ~ period + (1 | herd)"),
  epil = model("y ~ lbase*trt + lage + V4 + (1 | subject)", "poisson", "MASS", c("trt", "subject")),
  salamanders = model("count ~ mined + spp + (1 | site)", "poisson", "glmmTMB", c("mined", "spp", "site")),
  salamanders_dispersed = model("count ~ mined + spp + (1 | site)", "negative-binomial", "glmmTMB",
                                c("mined", "spp", "site"), data = "salamanders"),
  grouseticks = model("TICKS ~ YEAR + cHEIGHT + (1 | BROOD) + (1 | INDEX) + (1 | LOCATION)", "poisson", "lme4",
                      c("YEAR", "BROOD", "INDEX", "LOCATION"), effects = FALSE),
  verbagg = model("r2 ~ Anger + Gender + btype + situ + (1 | id) + (1 | item)", "logistic", "lme4",
                  c("Gender", "btype", "situ", "id", "item"), iterations = 6000, effects = FALSE),
  insteval = model("y ~ service + lectage + studage + (1 | s) + (1 | d) + (1 | dept)", "linear", "lme4",
                   c("service", "lectage", "studage", "s", "d", "dept"), effects = FALSE, by = "lme4"),
  mcycle = model("accel ~ s(times)", "linear", "MASS", character(0), by = "mgcv", s = "times"),
  gagurine = model("GAG ~ s(Age)", "linear", "MASS", character(0), by = "mgcv", s = "Age"),
  discoveries = model("count ~ s(year)", "poisson", "datasets", character(0), by = "mgcv", s = "year")
)

# Options of the command line in the order of their names: `--out=DIRECTORY`, and the models, or all of them.
option <- function(arguments, name, default) {
  given <- grep(paste0("^--", name, "="), arguments, value = TRUE)
  if (length(given)) sub("^[^=]*=", "", given) else default
}

chosen <- function(arguments) {
  names <- arguments[!startsWith(arguments, "--")]
  unknown <- setdiff(names, names(MODELS))
  if (length(unknown)) stop("no such model: ", paste(unknown, collapse = ", "))
  if (length(names)) names else names(MODELS)
}

data_file <- function(name, folder) {
  base <- if (is.null(MODELS[[name]]$data)) name else MODELS[[name]]$data
  zipped <- file.path(folder, paste0(base, ".csv.gz"))
  if (file.exists(zipped)) zipped else file.path(folder, paste0(base, ".csv"))
}

# The rows as R models want them: categories with their levels in the order of the alphabet, as isotherm has them.
read_rows <- function(name, folders) {
  files <- vapply(folders, function(folder) data_file(name, folder), "")
  found <- files[file.exists(files)]
  if (!length(found)) stop("no data for ", name, ": run export.R first")
  factors <- MODELS[[name]]$factors
  rows <- read.csv(found[1], colClasses = setNames(rep("character", length(factors)), factors))
  for (column in factors) rows[[column]] <- factor(rows[[column]], sort(unique(rows[[column]]), method = "radix"))
  rows
}
