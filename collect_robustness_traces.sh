#!/bin/sh
# Collects a dump of what etcd's robustness tests ask of etcd while they imitate Kubernetes: see docs/collect.md.
set -eu
script=$0
[ ! -L "$script" ] || script=$(readlink -f -- "$script")
exec "$(dirname -- "$script")/tools/collect.sh" robustness "$@"
