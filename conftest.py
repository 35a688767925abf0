"""Names the suite's plugin; what it does stands in etcd_coverage/suite/."""

pytest_plugins = ["etcd_coverage.suite.plugin", "pytester"]

# A bare pytest judges, even where an option made it take another folder for its root, and with it no testpaths. What is
# named on the command line runs all the same.
collect_ignore = ["etcd_coverage", "meta_tests"]
