"""Judges how Kubernetes uses etcd, from OpenTelemetry trace dumps.

The flow: dump -> spans (`dumps`) -> usage (`judging`) -> comparison (`comparing`) -> text (`reports`) -> verdict
(`suite`). A room imports only rooms and modules above it in this list; each room's docstring lists its modules.

- `text`: text from a dump, made fit to print
- `atomic`: files written as a whole
- `attributes`: typed look-up of a span's attributes
- `key_pattern`: key -> key pattern
- `matchers`: predicates on a call's attributes
- `reference`: the tables of what is expected: the one file that a contributor edits
- `releases`: which Kubernetes release a dump is of, and what that can call
- `dumps`: dump file -> spans
- `judging`: spans -> usage
- `comparing`: usage x usage -> covered, missing, new; gates; saved usages
- `reports`: usages and comparisons -> terminal tables, Markdown, HTML, JUnit
- `showing`: spans -> the calls that match, the tree of a trace, for somebody who looks at a dump
- `sources`: the work behind the commands: where traces come from
- `collecting`: the work behind the collectors: a test environment -> its traces in a dump
- `suite`: the pytest plugin and the judging tests

- `cli`: what the commands share: argument types, exit codes

Commands (``python -m etcd_coverage.X``): `jaeger` downloads a dump, `receive` receives one, `collect` runs a collector,
`sample` takes a sample of a dump, `show` shows calls and traces of one, `unseen` lists rows of the reference that no
dump has, `merge` makes one usage of those of several runs.
"""
