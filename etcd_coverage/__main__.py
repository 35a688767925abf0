"""``python -m etcd_coverage`` is the same as ``etcd-coverage``."""

import sys

from etcd_coverage.suite.command import main

if __name__ == "__main__":
    sys.exit(main())
