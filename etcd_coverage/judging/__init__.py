"""Spans -> usage.

This room promises: `judge.judge` returns how a dump used etcd as a `usage.Usage`, a plain value whose texts may all be
printed, and never raises for what a dump holds. Only `judge` opens a dump; the rest sees span values alone.

- `usage`: the values, and the schema of saved usages
- `span_maps`: spans by trace, gRPC spans and calls by method, transactions by lease
- `contract`: the contract event above a call
- `findings`: what nobody expected, and what to do about it
- `classify`: calls -> rows
- `leases`: LeaseGrant calls -> leases by key pattern
- `judge`: the stages in order
"""
