"""`isotherm validate`: measure whether the samplers are right."""

import argparse
import sys
from pathlib import Path

from isotherm.cli.arguments import Subparsers, add_command, seed
from isotherm.cli.messages import complain, say


def add_validate(commands: Subparsers) -> None:
    """Add `isotherm validate`, which measures whether the samplers are right."""
    parser = add_command(
        commands,
        "validate",
        help="measure every sampler on posteriors that are known exactly",
        description="Measure every sampler on posteriors that are known exactly, check the calibration of "
        "`iso.sample` by simulation, and write results.json, figures and report.html. Exit status: 0 if every row is "
        "right, or wrong by as much as theory predicts; 1 if some row is not; 2 if the command could not run. With "
        "--peers it is always 0.",
        example=_EXAMPLE,
    )
    parser.add_argument(
        "--quick", action="store_true", help="a sixth of the rows, with shorter chains: about three minutes"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder to write to (default: out/validation, or out/validation-rows with --only)",
    )
    parser.add_argument("--seed", type=seed, default=0, help="seed of the chains (default: 0)")
    parser.add_argument(
        "--only", metavar="TEXT", help="run only rows whose name contains TEXT, and no calibration"
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="measure SGHMC and SGNHT of the packages BlackJAX and posteriors instead (needs the extra `bench`)",
    )
    parser.add_argument(
        "--sampler",
        metavar="FILE.PY:FUNCTION",
        help="measure a sampler of your own: FUNCTION takes step sizes, friction and mass and returns the "
        "sampler; or PACKAGE:CLASS, called with those of step_size, friction and mass that it has a field for; or a "
        "name from the entry points isotherm.samplers of installed packages",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the rows and stop")
    parser.set_defaults(run=validate)


def validate(options: argparse.Namespace) -> int:
    """Run the table and the calibration; the exit code says whether every row is as it should be."""
    from isotherm.studies.validation import table
    from isotherm.studies.validation.peers import table as peers_table
    from isotherm.terminal import new_console

    try:
        rows = [case.name for case in table.cases(quick=options.quick, sampler=options.sampler)]
    except (OSError, ImportError, TypeError, ValueError) as error:
        complain(f"--sampler: {error}")
        return 2
    if options.peers:
        rows = [f"{method}, {setting.name}" for method, setting in peers_table.names()]
    only, partial = options.only or "", bool(options.only or options.sampler)
    rows = [name for name in rows if only in name]
    if not rows:
        complain(f"no row has {only!r} in its name; see --list")
        return 2
    if options.list:
        say("\n".join(rows))
        return 0
    # A partial table must not overwrite the full one.
    out = Path("out", "validation-rows" if partial else "validation") if options.out is None else options.out
    out.mkdir(parents=True, exist_ok=True)
    console = new_console(width=None if sys.stdout.isatty() else 140)
    common = {"quick": options.quick, "seed": options.seed, "console": console, "only": only}
    if options.peers:
        from isotherm.studies.validation.peers.page import compare

        compare(out, **common)
        say(f"report   {out / 'peers.html'}")
        return 0  # results of other packages say nothing about this installation
    from isotherm.studies.validation.validate import validate as run

    good = run(out, **common, sampler=options.sampler, calibrate=not partial)
    say(f"results  {out / 'results.json'}\nreport   {out / 'report.html'}")
    return 0 if good else 1


_EXAMPLE = """\
examples:
  isotherm validate --quick             # about three minutes
  isotherm validate --list              # names of the rows
  isotherm validate --only "logistic"   # only rows whose name contains this
"""
