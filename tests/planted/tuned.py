"""Mistakes in what the warm-up is made of, coordinates, control variates, weights, and in the diagnosis."""

from planted.bug import Bug

CONTROL, CHART = "control_variate.py", "preconditioner.py"
PULLED = ("test_preconditioner.py::test_forces_and_contrasts_are_pulled_back",)
UNBIASED = ("test_control_variate.py::test_the_force_has_no_bias_and_the_noise_of_the_rest",)
VOLUME = ("test_transforms.py::test_there_and_back_and_the_volume_between",)
MOVING = ("test_moving_anchor.py",)
MODES = ("test_beyond_the_draws.py::test_a_second_mode_with_few_and_many_parameters",)
TAILS = ("test_tails.py",)
HEAT = ("test_diagnosis.py::test_gradients_at_the_draws_measure_the_variance",)

TUNED = (
    Bug(
        "coordinates-not-transposed",
        "Forces are pulled back by L instead of its transpose.",
        CHART,
        "return tree.unravel_like(self.root.T @ tree.ravel(x), x)",
        "return tree.unravel_like(self.root @ tree.ravel(x), x)",
        PULLED,
    ),
    Bug(
        "low-rank-factor-not-inverted",
        "The way back from low-rank coordinates uses the factors of the way there.",
        CHART,
        "return self._along(1 / self.factors, tree.divide(x, self.scale))",
        "return self._along(self.factors, tree.divide(x, self.scale))",
        ("test_preconditioner.py::test_there_and_back",),
    ),
    Bug(
        "second-order-not-halved",
        "What is taken from each row has the whole second derivative, what is added for all rows half of it.",
        CONTROL,
        "return f(theta) - value - slope - curvature / 2",
        "return f(theta) - value - slope - curvature",
        UNBIASED,
    ),
    Bug(
        "known-slope-forgotten",
        "The gradient of all rows at the anchor is not added.",
        CONTROL,
        "total = self.posterior.prior_log_density(theta) + value + gradient @ change",
        "total = self.posterior.prior_log_density(theta) + value",
        UNBIASED,
    ),
    Bug(
        "weights-upside-down",
        "Rows drawn more often weigh more instead of less.",
        "data/weighted.py",
        "total / (len(tickets) * tickets.astype(np.float64))",
        "len(tickets) * tickets.astype(np.float64) / total",
        ("test_control_variate.py::test_weights_make_up_for_unequal_probabilities",),
    ),
    Bug(
        "volume-of-a-simplex-without-what-was-left",
        "The volume of a simplex leaves out what was left before each break.",
        "transforms.py",
        "return jnp.sum(inner + before, axis=-1)",
        "return jnp.sum(inner, axis=-1)",
        VOLUME,
    ),
    Bug(
        "volume-counted-by-the-temperature",
        "At temperature T the volume of a transform counts 1/T times.",
        "posterior.py",
        "return prior + jnp.asarray(self.posterior.temperature, volume.dtype) * volume",
        "return prior + volume",
        ("test_transforms.py::test_density_of_the_free_parameters",),
    ),
    Bug(
        "diagnosis-of-uncentred-draws",
        "Temperatures from fresh gradients pair them with positions that are not centred.",
        "diagnosis/heat.py",
        "y = _centred(y.reshape(*shape, -1)).reshape(count, -1)",
        "y = y + 0.0",
        HEAT,
    ),
    Bug(
        "diagnosis-with-the-wrong-sign",
        "Fresh gradients are forces.",
        "diagnosis/heat.py",
        "return tree.multiply(-1.0 / batches, total)",
        "return tree.multiply(1.0 / batches, total)",
        HEAT,
    ),
    Bug(
        "refined-mean-the-wrong-way",
        "What the gradient explains is added to the mean instead of taken from it.",
        "sampling/finish.py",
        "lambda m, s: m - np.asarray(s, np.float64)",
        "lambda m, s: m + np.asarray(s, np.float64)",
        ("test_moments.py::test_refined_means_of_a_normal_posterior",),
    ),
    Bug(
        "refined-mean-with-the-slope-upside-down",
        "The gradient counts by its slope over the position instead of the inverse.",
        "sampling/moments.py",
        "b = np.where(cov > 0, var / np.where(cov > 0, cov, 1), 0)",
        "b = np.where(var > 0, cov / np.where(var > 0, var, 1), 0)",
        ("test_moments.py::test_refined_means_of_a_normal_posterior",),
    ),
    Bug(
        "kinetic-temperature-of-a-block-by-all",
        "The kinetic temperature of a block is over the number of all parameters.",
        "sampling/loop.py",
        "tree.dot(a, b) / max(a.size, 1) for a, b in parts",
        "tree.dot(a, b) / tree.size(p) for a, b in parts",
        ("test_diagnosis.py::test_kinetic_temperature_of_each_block",),
    ),
    Bug(
        "anchors-that-stay",
        "Chains are said to take new anchors, and keep the first.",
        "sampling/run.py",
        "                anchors = _anchors(job, lanes.state.position)\n",
        "                anchors = _anchors(job, job.positions)\n",
        MOVING,
    ),
    Bug(
        "sums-of-another-anchor",
        "An anchor moves, and the sums over all rows stay those of the first.",
        CONTROL,
        "return eqx.tree_at(lambda g: (g.anchor, g.sums), self, (anchor.theta, anchor.sums))",
        "return eqx.tree_at(lambda g: g.anchor, self, anchor.theta)",
        MOVING,
    ),
    Bug(
        "refreshes-not-counted",
        "Passes over the data that move anchors are free.",
        "sampling/finish.py",
        "return 1 + max(0, steps - 1) // every if every else 0",
        "return 0",
        MOVING,
    ),
    Bug(
        "refreshes-where-the-host-looks-in",
        "Chunks run on over the step at which anchors are due.",
        "sampling/run.py",
        "events = (job.kernel.minibatch.rearrange_every, refresh_every(job))",
        "events = (job.kernel.minibatch.rearrange_every,)",
        MOVING,
    ),
    Bug(
        "a-mode-without-its-width",
        "The share of another mode counts the Hessian the wrong way round.",
        "diagnosis/elsewhere.py",
        "return -point.value / self.T - float(np.sum(np.log(values))) / 2 if",
        "return -point.value / self.T + float(np.sum(np.log(values))) / 2 if",
        ("test_beyond_the_draws.py::test_a_wide_mode_counts_for_more",),
    ),
    Bug(
        "a-mode-without-a-valley",
        "Any end of a way downhill is another mode.",
        "diagnosis/elsewhere.py",
        "if depth > _VALLEY * self.T else None",
        "if depth > -np.inf else None",
        MODES,
    ),
    Bug(
        "no-tail-is-long",
        "The warm-up takes minibatches however far the posterior reaches.",
        "tuning/choose.py",
        "if tail is None else _without_noise(look, rows, _about(tail, start))",
        "",
        TAILS,
    ),
    Bug(
        "a-step-into-the-wall",
        "The step is for the curvature around the mode, and not for the wall that faces a long tail.",
        "tuning/choose.py",
        "stiffest, slowest = max(stiffest, tail.stiffest), min(slowest, tail.slowest)",
        "slowest = min(slowest, tail.slowest)",
        TAILS,
    ),
    Bug(
        "a-tail-at-temperature-one",
        "How far U rises is not measured in units of the temperature.",
        "tuning/tails.py",
        "found.append((rise / T if",
        "found.append((rise if",
        TAILS,
    ),
)
