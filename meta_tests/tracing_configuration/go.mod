module github.com/etcd-io/etcd-k8s-coverage/tests/tracing_configuration

go 1.24.0
