#!/usr/bin/env bash
# Usage: tools/once.sh TARGET SOURCE... -- COMMAND [ARGUMENT...]; runs the command, which writes TARGET.part, and then puts
# that in its place. Of several makes at once one builds; the others wait for it and find TARGET built.
set -euo pipefail
usage='Usage: tools/once.sh TARGET SOURCE... -- COMMAND [ARGUMENT...]'
if [[ ${1-} == --help || ${1-} == -h ]]; then
    printf '%s\n' "$usage"
    exit 0
fi
[[ $# -ge 3 && " $* " == *' -- '* && $1 != -* ]] || {
    printf '%s\n' "$usage" >&2
    exit 2
}
target=$1
shift
sources=()
while [[ $1 != -- ]]; do
    sources+=("$1")
    shift
done
shift

is_built() {
    [[ -e $target ]] || return 1
    local source
    for source in "${sources[@]}"; do
        [[ ! $source -nt $target ]] || return 1
    done
}

mkdir -p "$(dirname -- "$target")"
# It comes with util-linux; where it is missing, nobody has two builds at once.
if command -v flock >/dev/null; then
    exec 9>"$target.lock"
    flock --nonblock 9 || {
        printf 'once.sh: another process builds %s; waiting for it\n' "$target" >&2
        flock 9
    }
    if is_built; then exit 0; fi
fi
trap 'rm -f -- "$target.part"' EXIT
# Without the lock, which what the command leaves running would hold.
"$@" 9>&-
mv -f -- "$target.part" "$target"
