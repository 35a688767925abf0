#!/usr/bin/env bash
# Pins a Kubernetes minor: writes tools/kubernetes/MINOR/go.mod and go.sum for its release in patches/kubernetes/series.
set -euo pipefail

unset CDPATH
usage='Usage: tools/kubernetes/add.sh MINOR (such as 1.38)'
if [[ ${1-} == --help || ${1-} == -h ]]; then
    printf '%s\n' "$usage"
    exit 0
fi
[[ $# == 1 && $1 != -* ]] || {
    printf '%s\n' "$usage" >&2
    exit 2
}
minor=$1
cd "$(dirname "${BASH_SOURCE[0]}")"
read -r _ release _ < <(grep "^$minor " ../../patches/kubernetes/series) || {
    printf 'add.sh: no Kubernetes %s in patches/kubernetes/series\n' "$minor" >&2
    exit 1
}
mkdir -p "$minor"
cd "$minor"
go mod download "k8s.io/kubernetes@$release"
upstream=$(go env GOMODCACHE)/cache/download/k8s.io/kubernetes/@v/$release.mod
{
    printf 'module etcd-k8s-coverage/tools/kubernetes/%s\n\ngo 1.26.0\n\n' "$minor"
    printf 'tool (\n'
    printf '\tk8s.io/kubernetes/cmd/%s\n' kube-apiserver kube-controller-manager kube-scheduler kubectl
    printf ')\n\nrequire k8s.io/kubernetes %s\n\nreplace (\n' "$release"
    # In a checkout these modules are directories of it; each is also published, as version 0.MINOR.
    sed -n "s|^\t\(k8s.io/[^ ]*\) => ./staging/.*|\t\1 => \1 v0.${release#v1.}|p" "$upstream"
    printf ')\n'
} >go.mod
rm -f go.sum
go mod tidy
