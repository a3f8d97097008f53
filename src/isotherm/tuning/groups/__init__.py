"""The warm-up for posteriors with effects of groups, whose Hessian has the shape of an arrow."""
