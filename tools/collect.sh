#!/bin/sh
# Usage: tools/collect.sh kind|local|robustness [OPTION...]; what collect_kind_traces.sh and its like have in common.
# Finds a Python, and leaves the rest to etcd_coverage/collect.py.
set -eu
name=collect_${1-}_traces
project=$(unset CDPATH && cd -- "$(dirname -- "$0")/.." && pwd)
python=${PYTHON:-$project/.venv/bin/python}
[ -n "${PYTHON-}" ] || [ -x "$python" ] || python=python3
"$python" -ISc 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    printf '%s: %s is no Python 3.11 or newer: make .venv/.installed PYTHON=/path/to/python3.11\n' "$name" "$python" >&2
    exit 1
}
# The folder that it is called in stays the current one, and gives no modules (-P).
export PYTHONPATH="$project${PYTHONPATH:+:$PYTHONPATH}"
set -- "$python" -P -m etcd_coverage.collect "$@"
# While Python starts, its answer to Ctrl-C is a traceback: Ctrl-C waits, where env is that of GNU.
case $python in
*=*) ;; # which env would take for a variable
*) if env --block-signal=INT true 2>/dev/null; then set -- env --block-signal=INT "$@"; fi ;;
esac
exec "$@"
