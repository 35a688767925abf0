"""The suite's own comparison, run on the dumps in testdata/; it stands in etcd_coverage/suite/."""

from etcd_coverage.suite.test_coverage import test_coverage

__all__ = ["test_coverage"]
