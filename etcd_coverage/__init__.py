"""Judges how Kubernetes uses etcd, from OpenTelemetry trace dumps.

A dump flows down this list; each module imports only modules above it:

- `text`: text from a dump, made fit to print
- `otlp`: dump file -> spans
- `maps`: spans -> span map, calls by gRPC method, transactions by lease
- `key_pattern`: key -> key pattern
- `matchers`: predicates on a call's attributes
- `reference`: the tables of what is expected: the one file that a contributor edits
- `contract`: call -> the contract event above it
- `classify`: calls x reference -> rows, leases, findings
- `usage`: the result of a dump as a value
- `compare`: reference usage x subject usage -> covered, missing, new
- `saved`: usages as files: told from dumps, loaded, brought up to date
- `gates`: comparison x what is demanded of it -> what fails; known gaps
- `tables`: usages and comparisons -> text tables
- `report`: usages and comparisons -> Markdown, HTML, JUnit properties (with `templates/`)
- `run`: one run of the suite: what is judged, compared and saved
- `options`: the options, and the files that they want written; the pytest plugin that conftest.py goes on from

Beside it: `jaeger` downloads dumps, and uses `otlp` to check them.
"""
