# Write the data sets of models.R as CSV, from the R packages that have them.
#
#   Rscript benchmarks/published/export.R [NAME ...] [--out=tests/published] [--large=out/published]
#
# InstEval (1.2 MB) goes to `--large`, which is not kept; the responses of VerbAgg are compressed.

suppressMessages({ library(lme4); library(nlme); library(MASS); library(glmmTMB) })
here <- dirname(sub("--file=", "", grep("--file=", commandArgs(), value = TRUE)))
source(file.path(here, "models.R"))

from_package <- function(name, package) { data(list = name, package = package, envir = environment()); get(name) }

TABLES <- list(
  sleepstudy = function() from_package("sleepstudy", "lme4"),
  dyestuff = function() from_package("Dyestuff", "lme4")[c("Batch", "Yield")],
  penicillin = function() from_package("Penicillin", "lme4"),
  pastes = function() from_package("Pastes", "lme4")[c("strength", "batch", "cask")],
  orthodont = function() as.data.frame(from_package("Orthodont", "nlme"))[c("distance", "age", "Subject", "Sex")],
  machines = function() as.data.frame(from_package("Machines", "nlme"))[c("Worker", "Machine", "score")],
  cbpp = function() from_package("cbpp", "lme4"),
  epil = function() { # logarithms of base and age, centred as in the help page of the data set
    rows <- from_package("epil", "MASS")
    rows$lbase <- log(rows$base / 4) - mean(log(rows$base / 4))
    rows$lage <- log(rows$age) - mean(log(rows$age))
    rows[c("y", "trt", "lbase", "lage", "V4", "subject")]
  },
  salamanders = function() from_package("Salamanders", "glmmTMB")[c("site", "mined", "spp", "count")],
  grouseticks = function() {
    from_package("grouseticks", "lme4")[c("INDEX", "TICKS", "BROOD", "YEAR", "LOCATION", "cHEIGHT")]
  },
  verbagg = function() {
    rows <- from_package("VerbAgg", "lme4")[c("id", "item", "Anger", "Gender", "btype", "situ", "r2")]
    rows$r2 <- as.integer(rows$r2 == "Y")
    rows
  },
  insteval = function() from_package("InstEval", "lme4")[c("s", "d", "studage", "lectage", "service", "dept", "y")],
  mcycle = function() from_package("mcycle", "MASS"),
  gagurine = function() from_package("GAGurine", "MASS"),
  discoveries = function() {
    counts <- datasets::discoveries
    data.frame(year = as.integer(time(counts)), count = as.integer(counts))
  }
)

arguments <- commandArgs(trailingOnly = TRUE)
small <- option(arguments, "out", "tests/published")
large <- option(arguments, "large", "out/published")
for (name in intersect(chosen(arguments), names(TABLES))) {
  folder <- if (name == "insteval") large else small
  dir.create(folder, recursive = TRUE, showWarnings = FALSE)
  path <- file.path(folder, paste0(name, if (name == "verbagg") ".csv.gz" else ".csv"))
  connection <- if (name == "verbagg") gzfile(path, "wb", compression = 9) else file(path, "wb")
  write.csv(TABLES[[name]](), connection, row.names = FALSE, quote = FALSE)
  close(connection)
  cat(sprintf("%-14s %8d bytes  %s\n", name, file.size(path), path))
}
