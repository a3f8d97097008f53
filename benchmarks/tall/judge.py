"""Compare draws from `nuts.py` or `hmcecs.py` with the reference, and write records for `benchmarks/tall`.

python benchmarks/tall/judge.py DIR --to benchmarks/references/nuts
"""

import argparse
import json
from pathlib import Path

import numpy as np
from quality import quality, truth


def main() -> None:
    """Write one record per problem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("draws", type=Path, help="folder with one file per problem")
    parser.add_argument("--to", type=Path, required=True, help="folder for the records")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    for path in sorted(options.draws.glob("*.npz")):
        with np.load(path) as stored:
            record = json.loads(str(stored["record"]))
            record |= quality(stored["x"].astype(np.float64), truth(record["problem"]))
        (options.to / f"{record['problem']}.json").write_text(json.dumps(record, indent=1) + "\n")
        print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in record.items()}))


if __name__ == "__main__":
    main()
