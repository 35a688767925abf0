module etcd-k8s-coverage/tools/go_original

go 1.26.0

require go.etcd.io/etcd/tests/v3 v3.8.0-alpha.0 // indirect
