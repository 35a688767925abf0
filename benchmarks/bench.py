"""Time the whole suite on a dump against ``json.load`` of the same file, in turn; print medians, ratio, MB/s, peak RSS.

Run by ``make bench``. Each figure is of a whole process, as the operating system accounts for it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "testdata" / "kubernetes-1.37.json.gz"
FULL = ROOT.parent / "shared" / "dumps" / "kubernetes-1.37-full.json.gz"
SIZES = (20, 100, 400)


def measure(command: list[str], folder: Path) -> tuple[float, float, float]:
    """Run the command; return its wall seconds, CPU seconds and peak RSS in MB."""
    start = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def compare(dump: Path, runs: int) -> list[str]:
    """Time both commands in turn and return a row of the table."""
    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "TestInterfaceUse"]
    suite += [f"--testdata={dump.parent}", str(ROOT / "tests" / "test_interface_use.py")]
    load = [sys.executable, "-c", "import json, sys; json.load(open(sys.argv[1]))", str(dump)]
    pairs = [(measure(suite, ROOT), measure(load, ROOT)) for _ in range(runs)]
    ours, theirs = zip(*pairs, strict=True)
    wall, cpu, rss = (statistics.median(figures) for figures in zip(*ours, strict=True))
    load_wall, load_cpu, load_rss = (statistics.median(figures) for figures in zip(*theirs, strict=True))
    megabytes = dump.stat().st_size / 1e6
    return [
        f"{dump.name} ({megabytes:.0f} MB)",
        f"{wall:.2f} / {load_wall:.2f} s",
        f"{statistics.median(a[0] / b[0] for a, b in pairs):.2f}",
        f"{cpu:.2f} / {load_cpu:.2f} s",
        f"{statistics.median(a[1] / b[1] for a, b in pairs):.2f}",
        f"{megabytes / wall:.0f}",
        f"{rss:.0f} / {load_rss:.0f} MB",
        f"{rss / load_rss:.2f}",
    ]


def main() -> None:
    """Scale the demo dump up, measure it and the full dump if it is there, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="runs of each command (default: 5)")
    parser.add_argument("--sizes", type=float, nargs="*", default=SIZES, metavar="MB", help="default: 20 100 400")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        dumps = []
        for size in arguments.sizes:
            dump = Path(folder) / f"demo-x{size:g}" / "kubernetes-1.37.json"
            dump.parent.mkdir()
            # In a process of its own: a child's peak RSS never reads less than its parent's had at the fork.
            command = [sys.executable, "-m", "benchmarks.scale", str(DEMO), str(dump), str(size)]
            subprocess.run(command, cwd=ROOT, check=True)
            dumps.append(dump)
        if FULL.exists():
            dump = Path(folder) / "full" / "kubernetes-1.37-full.json"
            dump.parent.mkdir()
            with dump.open("wb") as out:
                subprocess.run(["gzip", "-dc", FULL], stdout=out, check=True)
            dumps.append(dump)
        else:
            print(f"no {FULL.name}: the full dump is left out", file=sys.stderr)
        rows = [compare(dump, arguments.runs) for dump in dumps]
    headers = ["dump", "wall: suite / json.load", "ratio", "CPU", "ratio", "MB/s", "peak RSS", "ratio"]
    print(tabulate(rows, headers=headers, disable_numparse=True))


if __name__ == "__main__":
    main()
