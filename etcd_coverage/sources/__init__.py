"""The work behind the commands: where traces come from.

This room promises: what it writes is whole or not there, an existing file stays until the new one is read by the
suite's own reader, and what goes wrong is one line.

- `http_client`: HTTP within limits: timeouts, proxies, certificates
- `jaeger_answer`: what Jaeger answers, and what its errors mean
- `jaeger_api`: the query API of a Jaeger server
- `download`: a service's traces in windows -> a dump
- `receiver`: a gRPC server for OTLP: exported traces -> a dump in parts
- `trace_requests`: what a sender exports -> one request, checked and counted
- `parts`: requests -> files of zstd frames, and their index
- `recover`: what a receiver left that was killed -> a dump
- `live_judge`: requests as they are written -> lines about what nobody expected
- `receiving`: what a receiver shows while it runs
"""
