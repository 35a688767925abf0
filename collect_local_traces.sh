#!/bin/sh
# Collects a dump of what a Kubernetes control plane on this machine asks of etcd, without Docker: see docs/collect.md.
set -eu
script=$0
[ ! -L "$script" ] || script=$(readlink -f -- "$script")
exec "$(dirname -- "$script")/tools/collect.sh" local "$@"
