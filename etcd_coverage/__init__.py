"""Judges how Kubernetes uses etcd, from OpenTelemetry trace dumps."""
