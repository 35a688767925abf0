#!/bin/sh
# Collects a dump of all that Kubernetes asks of etcd in a kind cluster: see docs/collect.md.
set -eu
script=$0
[ ! -L "$script" ] || script=$(readlink -f -- "$script")
exec "$(dirname -- "$script")/tools/collect.sh" kind "$@"
