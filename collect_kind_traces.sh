#!/bin/sh
# Collects a dump of all that Kubernetes asks of etcd in a kind cluster: see docs/collect.md.
# Finds a Python, and leaves the rest to etcd_coverage/collect.py.
set -eu
name=collect_kind_traces
script=$0
[ ! -L "$script" ] || script=$(readlink -f -- "$script")
project=$(unset CDPATH && cd -- "$(dirname -- "$script")" && pwd)
python=${PYTHON:-$project/.venv/bin/python}
[ -n "${PYTHON-}" ] || [ -x "$python" ] || python=python3
"$python" -ISc 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    printf '%s: %s is no Python 3.11 or newer: make .venv/.installed PYTHON=/path/to/python3.11\n' "$name" "$python" >&2
    exit 1
}
# The folder that it is called in stays the current one, and gives no modules (-P).
export PYTHONPATH="$project${PYTHONPATH:+:$PYTHONPATH}"
set -- "$python" -P -m etcd_coverage.collect kind "$@"
# While Python starts, its answer to Ctrl-C is a traceback: Ctrl-C waits, where env is that of GNU.
case $python in
*=*) ;; # which env would take for a variable
*) if env --block-signal=INT true 2>/dev/null; then set -- env --block-signal=INT "$@"; fi ;;
esac
exec "$@"
