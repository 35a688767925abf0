#!/usr/bin/env bash
# Builds the patched programs of a Kubernetes control plane from its pinned Go module into .tools/kubernetes-MINOR/bin.
set -euo pipefail

programs=(kube-apiserver kube-controller-manager kube-scheduler kubectl)
unset CDPATH
here=${BASH_SOURCE[0]}
[[ ! -L $here ]] || here=$(readlink -f -- "$here")
here=$(cd -- "$(dirname -- "$here")" && pwd)
project=$(cd "$here/../.." && pwd)

fail() {
    printf 'build.sh: %s\n' "$*" >&2
    exit 1
}

usage='Usage: tools/kubernetes/build.sh MINOR (such as 1.37)'
if [[ ${1-} == --help || ${1-} == -h ]]; then
    printf '%s\n' "$usage"
    exit 0
fi
[[ $# == 1 && $1 != -* ]] || {
    printf '%s\n' "$usage" >&2
    exit 2
}
minor=$1
module=$here/$minor
[[ $minor =~ ^1\.[0-9]+$ && -f $module/go.mod ]] || {
    minors=("$here"/[0-9]*/)
    minors=("${minors[@]%/}")
    fail "no Kubernetes $minor in tools/kubernetes, only ${minors[*]##*/}"
}
work=$project/.tools/kubernetes-$minor
cd "$project/patches/kubernetes"
read -r _ release patches < <(grep "^$minor " series) || fail "no Kubernetes $minor in patches/kubernetes/series"
grep --quiet "k8s.io/kubernetes $release" "$module/go.mod" ||
    fail "tools/kubernetes/$minor/go.mod has not the release of patches/kubernetes/series, $release"
read -ra patches <<<"$patches"

# Go's container images say local; a release may need a newer Go, which the go command then fetches.
[[ $(go env GOTOOLCHAIN) != local ]] || export GOTOOLCHAIN=auto

# Runs side by side build once.
mkdir -p "$work/bin"
exec 9>"$work/lock"
flock 9

# What the programs are built from, in one number: the same number is the same programs.
inputs=$(cat "$module/go.mod" "$module/go.sum" "$here/build.sh" "${patches[@]}" | sha256sum)
[[ ! -f $work/inputs || $(<"$work/inputs") != "$inputs" ]] || {
    printf 'Kubernetes %s is built\n' "$release"
    exit 0
}

cd "$work"
rm -rf vendor inputs
cp "$module/go.mod" "$module/go.sum" .
printf 'Fetching Kubernetes %s\n' "$release"
go mod vendor
for patch in "${patches[@]}"; do
    # In a checkout the apiserver is not vendored, here it is; hack/ is no part of a module.
    sed 's|\([ab]\)/staging/src/|\1/vendor/|g' "$project/patches/kubernetes/$patch" |
        GIT_DIR=/dev/null git apply --exclude='hack/*' || fail "$patch does not fit $release"
done

# Kubernetes' own build sets these too: the programs tell them, and clients compare them.
version_flags=
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    version_flags+=" -X $package.gitVersion=$release -X $package.gitMajor=1 -X $package.gitMinor=${minor#1.}"
done
printf 'Building %s\n' "${programs[*]}"
# -trimpath also lets the minors share what they have in common in Go's cache.
CGO_ENABLED=0 go build -mod=vendor -trimpath -ldflags "-s -w$version_flags" -o bin/ "${programs[@]/#/k8s.io/kubernetes/cmd/}"
printf '%s\n' "$inputs" >inputs
