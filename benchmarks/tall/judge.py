"""Draws that `nuts.py` or `hmcecs.py` left, held against the reference: records for `benchmarks/tall`.

python benchmarks/tall/judge.py DIR --to benchmarks/references/nuts
"""

import argparse
import json
from pathlib import Path

import numpy as np
from quality import quality, truth


def main() -> None:
    """One record a problem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("draws", type=Path, help="folder with a file a problem")
    parser.add_argument("--to", type=Path, required=True, help="where the records go")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    for path in sorted(options.draws.glob("*.npz")):
        with np.load(path) as held:
            record = json.loads(str(held["record"]))
            record |= quality(held["x"].astype(np.float64), truth(record["problem"]))
        (options.to / f"{record['problem']}.json").write_text(json.dumps(record, indent=1) + "\n")
        print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in record.items()}))


if __name__ == "__main__":
    main()
