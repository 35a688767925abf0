"""Which minors of Kubernetes can be built here."""

from __future__ import annotations

import re

from etcd_coverage.collecting.settings import PROJECT


def minors() -> list[str]:
    """Return the minors that can be built, in order: all have two digits."""
    return sorted(path.name for path in (PROJECT / "tools" / "kubernetes").glob("1.*") if path.is_dir())


def newest_release() -> str:
    """Return the newest minor that is out: prereleases are built too, if they are asked for."""
    series = (PROJECT / "patches" / "kubernetes" / "series").read_text(encoding="utf-8")
    ahead = re.findall(r"^(1\.\d+) v\S+-\S+", series, re.MULTILINE)
    return [minor for minor in minors() if minor not in ahead][-1]
