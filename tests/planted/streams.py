"""Mistakes in rows that are read from a source: what is read, how rows are drawn, and how they reach the chains."""

from planted.bug import Bug

SOURCES = "test_sources.py::"
STREAM = "test_stream.py::"
BLOCKS = ("test_weighted_blocks.py::test_frequencies_and_weights",)

STREAMS = (
    Bug(
        "padding-of-a-block-counted",
        "Copies of the last row, which fill up the last block of a stream, are counted.",
        "_fold_block",
        "new & (start + jnp.arange(length, dtype=jnp.int32) < count)",
        "new",
        (SOURCES + "test_control_variates_of_a_given_sampler_take_their_sums_from_the_source",),
    ),
    Bug(
        "sample-of-the-first-rows",
        "The sample of a stream has too few of the last rows.",
        "_random_rows",
        "return np.sort(rng.permutation(index)[:count])",
        "return index[:count]",
        (STREAM + "test_the_sample_is_random_and_holds_the_rows_it_names",),
    ),
    Bug(
        "rows-numbered-anew-in-each-block",
        "A row with NaN is named by its number in its block.",
        "_seen",
        "begin += num_rows(block)",
        "begin += 0",
        (STREAM + "test_nan_is_refused_with_its_row",),
    ),
    Bug(
        "changed-files-read-on",
        "A file that changes between two passes is not noticed.",
        "check_unchanged",
        "if now == state:",
        "if True:",
        (STREAM + "test_a_change_between_two_passes_is_noticed",),
    ),
    Bug(
        "weights-without-blocks",
        "Weights of rows leave out that some blocks are drawn more often than others.",
        "WeightedBlocks.found",
        "share = float(self.totals[b]) / float(ends[-1])",
        "share = 1 / len(ends)",
        BLOCKS,
    ),
    Bug(
        "one-random-number-for-block-and-row",
        "The number that draws a block also draws the row in it.",
        "WeightedBlocks.found",
        "drawn = self._drawn(data, b, read, row_fraction[places])",
        "drawn = self._drawn(data, b, read, block_fraction[places])",
        BLOCKS,
    ),
    Bug(
        "rows-measured-again-forgotten",
        "Rows whose noise was measured again keep their old tickets.",
        "StreamedRows.replaced",
        "codes[order][index] = new",
        "pass",
        ("test_streamed_rows.py::test_rows_measured_again_change_codes_and_totals",),
    ),
    Bug(
        "pool-of-the-noisiest-rows",
        "The pool that noise is measured by holds each row of the sample as if it stood for itself alone.",
        "StreamedRows._pool",
        "shares = chosen.copies * tickets",
        "shares = tickets",
        ("test_streamed_rows.py::test_the_pool_stands_for_all_rows",),
    ),
    Bug(
        "rows-of-another-key",
        "Rows of a step are fetched by the key of its drift instead of that of its batch.",
        "_names",
        "batch_key = Kernel.step_keys(key, step)[1]",
        "batch_key = Kernel.step_keys(key, step)[0]",
        (SOURCES + "test_a_given_sampler_draws_the_same_from_a_source_as_from_memory",),
    ),
)
