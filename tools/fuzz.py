"""Breaks real files at random until the time is up, and keeps each one that a reader fails on: ``make fuzz``."""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
from pathlib import Path

from meta_tests import fuzz


def main() -> int:
    """Run the command line and return its exit code: 1 where a reader failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1_000_000, help="the first seed (default: %(default)s)")
    parser.add_argument("--keep", type=Path, default=Path("fuzz"), metavar="DIR", help="where failing files are kept")
    options = parser.parse_args()
    kinds = {
        "dump": (fuzz.dumps(), fuzz.check_dump),
        "kind": (fuzz.kinds(), fuzz.check_dump),
        "usage": (fuzz.usages(), fuzz.check_saved),
    }
    end = time.monotonic() + options.seconds
    seed, failed, slowest = options.seed, 0, (0.0, "")
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            for kind, (bases, check) in kinds.items():
                path = Path(folder) / f"{kind}.json"
                path.write_bytes(fuzz.broken(seed, bases))
                start = time.monotonic()
                try:
                    check(path)
                except Exception:
                    failed += 1
                    options.keep.mkdir(exist_ok=True)
                    kept = options.keep / f"{kind}-{seed}.json"
                    kept.write_bytes(path.read_bytes())
                    print(f"{kept}\n{traceback.format_exc(limit=-4)}", flush=True)
                slowest = max(slowest, (time.monotonic() - start, f"{kind} {seed}"))
            seed += 1
    tried = f"{seed - options.seed} seeds from {options.seed} on, {failed} failures"
    print(f"{tried}, slowest {slowest[0]:.1f} s: {slowest[1]}")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
