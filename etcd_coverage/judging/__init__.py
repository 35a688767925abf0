"""Spans -> usage.

This room promises: `judge.judge` returns how a dump used etcd as a `usage.Usage`, a plain value whose texts may all be
printed, and never raises for what a dump holds. Only `judge` opens a dump; the rest sees span values alone.

- `usage`: the values, and the schema of saved usages
- `server_spans`: what an etcd gRPC server span is
- `losses`: what a dump lost or got twice
- `span_maps`: spans by trace, gRPC spans and calls by method, transactions by lease
- `user_agents`: user agent -> component, role, e2e test
- `first_above`: the first of something at or above a span
- `origins`: span -> the request that it is, and who made it
- `ancestors`: the contract event and the request above a call, in one walk
- `outcomes`: the gRPC status that a call ended with
- `origin_counts`: calls by origin and e2e test, and errors, added up
- `data_quality`: what makes a dump's numbers wrong, by limits
- `finding_kinds`: the table of the kinds of findings, and what to do about each
- `findings`: what nobody expected of methods
- `reference_rows`: a finding -> the row to paste into reference.py
- `classify`: calls -> rows
- `leases`: LeaseGrant calls -> leases by key pattern
- `judge`: the stages in order
- `live`: spans as they come -> findings, long before the dump is whole
"""
