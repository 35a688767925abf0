"""Dump file -> spans.

This room promises: whatever kind of dump a file is, `kinds.read_dump` returns its spans by resource, normalised
(`spans`), or raises one `error.DumpError` that says in a line what is wrong, where, and what to do. Nothing behind it
knows JSON, a compression or a spelling. Nothing here knows etcd or Kubernetes.

- `error`: the one exception
- `files`: a file's content, unpacked within limits; why it is no dump
- `spans`: the neutral span
- `spelling`: values and names in the protobuf JSON mapping
- `quick_attributes`: a few attributes out of many, where they are spelled as Jaeger does
- `otlp_json`: ``ResourceSpans`` in JSON
- `otlp_attributes`: attributes in JSON
- `otlp_spelled`: the same in legal but unusual spellings
- `pieces`: a long answer in pieces, so that memory never holds all of it
- `jaeger_v3`: answers of Jaeger's API v3
- `kinds`: the table of the kinds of dump
- `write`: dumps written whole or not at all
"""
