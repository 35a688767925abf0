"""Dump file -> spans.

This room promises: whatever kind of dump a file or a folder of parts is, `parts.open_dump` returns its spans by
resource, normalised (`spans`), or raises one `error.DumpError` that says in a line what is wrong, where, and what to
do. Nothing behind it knows JSON, a compression or a spelling. Nothing here knows etcd or Kubernetes.

- `error`: the one exception
- `compressions`: the table of compressions
- `files`: a file's content, unpacked within limits; why it is no dump
- `spans`: the neutral span
- `spelling`: values and names in the protobuf JSON mapping
- `quick_attributes`: a few attributes out of many, where they are spelled as Jaeger does
- `otlp_json`: ``ResourceSpans`` in JSON
- `otlp_attributes`: attributes in JSON
- `otlp_spelled`: the same in legal but unusual spellings
- `resource_lists`: lists of ``ResourceSpans`` in an envelope of JSON
- `jaeger_v3`: answers of Jaeger's API v3
- `otlp_request`: OTLP's requests in JSON
- `tempo`: traces of Grafana Tempo
- `jaeger_ui`: what Jaeger's UI shows, and `jaeger_tags`: its tags and logs
- `documents`: several documents of JSON in one body
- `otlp_proto`: OTLP's requests in protobuf
- `framed`: requests behind their lengths
- `kinds`: the table of the kinds of dump
- `parts`: a folder of files that are one dump
- `write`: dumps written whole or not at all
"""
