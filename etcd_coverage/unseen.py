"""Lists what the reference expects and none of the given dumps or saved usages has.

python -m etcd_coverage.unseen usage/*.json
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from etcd_coverage.comparing import saved
from etcd_coverage.comparing.unseen import unseen
from etcd_coverage.dumps.error import DumpError

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, or 1 where a file cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m etcd_coverage.unseen",
        description="List the rows of the reference that none of these dumps or saved usages has.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a dump or a saved usage")
    options = parser.parse_args(arguments)
    usages = []
    try:
        for file in options.files:
            usage = saved.usage_of(saved.find(file))
            if usage.error is not None:
                raise DumpError(usage.error)
            usages.append(usage)
    except DumpError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    lines = list(unseen(usages))
    print("\n".join(lines) if lines else "every row of the reference was seen")
    return 0


if __name__ == "__main__":
    sys.exit(main())
