#!/usr/bin/env bash
# Pins a Kubernetes minor: writes tools/kubernetes/MINOR/go.mod and go.sum for its release in patches/kubernetes/series,
# or for the release that is given, which then stands in the series.
set -euo pipefail

unset CDPATH
fail() {
    printf 'add.sh: %s\n' "$*" >&2
    exit 1
}

usage='Usage: tools/kubernetes/add.sh MINOR [RELEASE|newest] (such as 1.38, 1.38 v1.38.0-rc.0, 1.38 newest)'
if [[ ${1-} == --help || ${1-} == -h ]]; then
    printf '%s\n' "$usage"
    exit 0
fi
[[ $# -ge 1 && $# -le 2 && $1 =~ ^1\.[0-9]+$ && ${2-newest} =~ ^(newest|v${1//./\\.}\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?)$ ]] || {
    printf '%s\n' "$usage" >&2
    exit 2
}
minor=$1
cd "$(dirname "${BASH_SOURCE[0]}")"
series=../../patches/kubernetes/series
read -r _ pinned patches < <(grep "^$minor " "$series") || pinned='' patches=''
[[ -n ${2-} || -n $pinned ]] || fail "no Kubernetes $minor in patches/kubernetes/series: give its release too"
# Go's container images say local; a release may need a newer Go, which the go command then fetches.
[[ $(go env GOTOOLCHAIN) != local ]] || export GOTOOLCHAIN=auto

# In the same file system as the result, which comes into place when all of it is there.
work=$(mktemp -d "$PWD/.add.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
release=${2:-$pinned}
if [[ $release == newest ]]; then
    known=$(go list -m -versions k8s.io/kubernetes 2>&1) || fail "no list of releases: $(tr -s '[:space:]' ' ' <<<"$known")"
    known=$(tr ' ' '\n' <<<"$known" | grep "^v${minor//./\\.}\." || true)
    [[ -n $known ]] || fail "no release of Kubernetes $minor is published"
    # They come in order; a prerelease is the newest where there is no release yet.
    release=$( (grep -v -e - <<<"$known" || printf '%s\n' "$known") | tail -n 1)
fi
upstream=$(go list -m -f '{{.GoMod}}' "k8s.io/kubernetes@$release" 2>&1) ||
    fail "no Kubernetes $release: $(tr -s '[:space:]' ' ' <<<"$upstream")"
go=$(sed -n 's/^go //p' "$upstream")
# In a checkout these modules are directories of it; each is also published, as version 0.MINOR.
mapfile -t staging < <(sed -n 's|^\t\(k8s.io/[^ ]*\) v0\.0\.0\( //.*\)\{0,1\}$|\1|p' "$upstream")
published=v0.${release#v1.}
# Those of a prerelease come one by one, the last of them days after Kubernetes itself.
missing=$(go list -m -e -f '{{with .Error}}{{$.Path}}{{end}}' "${staging[@]/%/@$published}" | grep . | paste -sd ' ' || true)
if [[ -n $missing ]]; then
    why=$(go list -m "${missing%% *}@$published" 2>&1 | tr -s '[:space:]' ' ' || true)
    fail "Kubernetes $release is not all there yet, try again later: of $missing there is no $published ($why)"
fi
{
    printf 'module etcd-k8s-coverage/tools/kubernetes/%s\n\ngo %s\n\n' "$minor" "$go"
    printf 'tool (\n'
    printf '\tk8s.io/kubernetes/cmd/%s\n' kube-apiserver kube-controller-manager kube-scheduler kubectl
    printf ')\n\nrequire k8s.io/kubernetes %s\n\nreplace (\n' "$release"
    for module in "${staging[@]}"; do
        printf '\t%s => %s %s\n' "$module" "$module" "$published"
    done
    printf ')\n'
} >go.mod
go mod tidy

cd ..
mkdir -p "$minor"
mv "$work/go.mod" "$work/go.sum" "$minor"
[[ $release == "$pinned" ]] && exit
# A new minor gets the patches of the newest one.
[[ -n $patches ]] || read -r _ _ patches < <(tail -n 1 "$series")
{
    grep '^#' "$series"
    {
        grep -v "^#\|^$minor " "$series"
        printf '%s %s %s\n' "$minor" "$release" "$patches"
    } | sort -V
} >"$work/series"
cp "$work/series" "$series"
