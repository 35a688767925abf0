"""The suite's own tests, run on the dumps in testdata/; they stand in etcd_coverage/suite/."""

from etcd_coverage.suite.test_interface_use import TestInterfaceUse

__all__ = ["TestInterfaceUse"]
