#!/usr/bin/env bash
# Picks, tells, applies and reverses the patches of this folder on a Kubernetes checkout.
# A command (series.sh --help), and functions for scripts that source it: each function
# returns 0 only if the outcome it is named for was seen in the tree.

# They would take `cd` and git elsewhere than they are sent.
unset CDPATH GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_PREFIX GIT_COMMON_DIR GIT_NAMESPACE GIT_OBJECT_DIRECTORY \
  GIT_ALTERNATE_OBJECT_DIRECTORIES

SERIES_DIR=${BASH_SOURCE[0]}
[[ ! -L $SERIES_DIR ]] || SERIES_DIR=$(readlink -f -- "$SERIES_DIR")
SERIES_DIR=$(cd -- "$(dirname -- "$SERIES_DIR")" && pwd)

series_usage() {
  cat <<'EOF'
usage: series.sh COMMAND [--minor 1.37] [--only PATCH]... REPO

REPO is the root of a Kubernetes checkout. Its patches are chosen by `git describe`, or by --minor.

  pick     print the path of each patch, in order
  status   print the state of each patch: applied, applicable, or does not fit and why
  apply    apply each patch that is not applied yet: all of them, or none
  reverse  reverse the patches that `apply` applied, and no others; of these only PATCH, if it is given by name

Exit code: 0 done (status: every patch is applied or applicable), 1 not done, 2 wrong usage.
EOF
}

series_error() {
  printf 'series.sh: %s\n' "$*" >&2
  return 1
}

# series_root REPO: fail unless REPO is the root of a git checkout: below it, git apply skips files without a word.
series_root() {
  local root top
  root=$(cd -- "$1" 2>/dev/null && pwd -P) || series_error "$1: no such folder" || return
  if ! top=$(git -C "$root" rev-parse --show-toplevel 2>&1) && [[ $top == *'dubious ownership'* ]]; then
    series_error "git does not read $1, which belongs to another user: git config --global --add safe.directory $root"
    return
  fi
  [[ $top == "$root" ]] || series_error "$1 is not the root of a git checkout"
}

# series_version REPO [MINOR]: print the Kubernetes version, such as v1.37.2 or v1.37.2-3-gabcdef;
# where the checkout has no version tag, MINOR stands in.
series_version() {
  series_root "$1" || return
  git -C "$1" describe --tags --match 'v[0-9]*' 2>/dev/null && return
  [[ -n ${2:-} ]] || series_error "$1 has no version tag: git fetch --tags there, or give --minor" || return
  printf '%s\n' "$2"
}

# series_pick REPO [MINOR]: print the path of each patch for the repo's version, in order.
series_pick() {
  local repo=$1 minor=${2:-} version known='' line_minor patches patch
  version=$(series_version "$repo" "$minor") || return
  [[ -n $minor ]] || minor=$(sed -E 's/^v([0-9]+\.[0-9]+)\..*/\1/' <<<"$version")
  while read -r line_minor _ patches; do
    [[ -n $line_minor && $line_minor != '#'* ]] || continue
    known+=" $line_minor"
    if [[ $line_minor == "$minor" ]]; then
      for patch in $patches; do printf '%s/%s\n' "$SERIES_DIR" "$patch"; done
      return 0
    fi
  done <"$SERIES_DIR/series"
  series_error "no patches for Kubernetes $version in $SERIES_DIR/series; it knows$known (--minor tries one of them)"
}

# series_state REPO PATCH: print applied, applicable or "does not fit".
series_state() {
  if git -C "$1" apply --reverse --check "$2" 2>/dev/null; then
    echo applied
  elif git -C "$1" apply --check "$2" 2>/dev/null; then
    echo applicable
  else
    echo 'does not fit'
  fi
}

# series_files REPO PATCH: print the paths that a patch touches.
series_files() {
  git -C "$1" apply --numstat "$2" | cut -f 3
}

# series_why REPO PATCH: print in one line what is wrong with each file of a patch that does not fit.
series_why() {
  local repo=$1 patch=$2 file why='' state
  while read -r file; do
    if git -C "$repo" apply --reverse --check --include="$file" "$patch" 2>/dev/null; then
      state='is patched already'
    elif git -C "$repo" apply --check --include="$file" "$patch" 2>/dev/null; then
      state='is not patched'
    elif [[ ! -e $repo/$file ]]; then
      state='is missing'
    elif grep -q $'\r$' "$repo/$file"; then
      state='has CRLF line ends (git config core.autocrlf false, and check out again)'
    else
      state='is other than the patch expects'
    fi
    why+="${why:+, }$file $state"
  done < <(series_files "$repo" "$patch")
  printf '%s\n' "$why"
}

# series_status REPO [MINOR]: print a line for each patch; fail if one does not fit.
series_status() {
  local repo=$1 version patches patch state misfits=0
  version=$(series_version "$repo" "${2:-}") && patches=$(series_pick "$@") || return
  while read -r patch; do
    state=$(series_state "$repo" "$patch")
    if [[ $state == 'does not fit' ]]; then
      misfits=1
      printf '%s: does not fit Kubernetes %s: %s\n' "${patch##*/}" "$version" "$(series_why "$repo" "$patch")"
    else
      printf '%s: %s\n' "${patch##*/}" "$state"
    fi
  done <<<"$patches"
  return "$misfits"
}

# series_record REPO: print the path of the file, inside the git folder, that names what series_apply applied.
series_record() {
  printf '%s/applied-trace-patches\n' "$(git -C "$1" rev-parse --absolute-git-dir)"
}

# series_forget REPO RECORD: drop from the record what somebody has taken out by hand meanwhile: who puts it in again by
# hand keeps it.
series_forget() {
  local name kept=''
  [[ -s $2 ]] || return 0
  while read -r name; do
    [[ $(series_state "$1" "$SERIES_DIR/$name") == applicable ]] || kept+="$name"$'\n'
  done < <(sort -u "$2")
  printf '%s' "$kept" >"$2"
}

# series_apply REPO [MINOR]: apply each patch that is not applied yet; all patches are in afterwards, or none more.
series_apply() {
  local repo=$1 patches patch status record mine=()
  patches=$(series_pick "$@") && record=$(series_record "$repo") || return
  if ! status=$(series_status "$@"); then
    grep 'does not fit' <<<"$status" >&2
    series_error "nothing was changed in $repo"
    return
  fi
  series_forget "$repo" "$record"
  while read -r patch; do
    if [[ $(series_state "$repo" "$patch") == applied ]]; then
      echo "${patch##*/}: already applied"
      continue
    fi
    mine+=("${patch##*/}")
    # Recorded first: what an interrupt leaves behind can then be reversed.
    if echo "${patch##*/}" >>"$record" && git -C "$repo" apply --whitespace=nowarn "$patch" &&
      [[ $(series_state "$repo" "$patch") == applied ]]; then
      echo "${patch##*/}: applied"
    else
      series_error "${patch##*/} could not be applied in $repo: reversing what was applied"
      series_reverse "$repo" '' "${mine[@]}" >&2
      return 1
    fi
  done <<<"$patches"
}

# series_reverse REPO [MINOR [PATCH...]]: reverse what series_apply applied, or of that the patches by name, the last one
# first, and go on after a failure.
series_reverse() {
  local repo=$1 record names name patch file left='' status=0 only=("${@:3}")
  series_root "$repo" && record=$(series_record "$repo") || return
  if [[ ! -s $record ]]; then
    echo "nothing to reverse in $repo"
    return 0
  fi
  names=$(sort -ru "$record")
  while read -r name; do
    if ((${#only[@]} > 0)) && [[ " ${only[*]} " != *" $name "* ]]; then
      left+="$name"$'\n'
      continue
    fi
    patch=$SERIES_DIR/$name
    # File by file: an interrupt or a full disk can leave a patch half applied.
    while read -r file; do
      if git -C "$repo" apply --reverse --check --include="$file" "$patch" 2>/dev/null; then
        git -C "$repo" apply --reverse --whitespace=nowarn --include="$file" "$patch" || true
      fi
    done < <(series_files "$repo" "$patch")
    if [[ $(series_state "$repo" "$patch") == applicable ]]; then
      echo "$name: reversed"
    else
      series_error "$name could not be reversed in $repo: $(series_why "$repo" "$patch")"
      left+="$name"$'\n'
      status=1
    fi
  done <<<"$names"
  printf '%s' "$left" >"$record"
  [[ -n $left ]] || rm -f "$record"
  return "$status"
}

series_main() {
  local command=${1:-} minor='' only=()
  case $command in
    -h | --help) series_usage && return 0 ;;
    pick | status | apply | reverse) shift ;;
    *) series_usage >&2 && return 2 ;;
  esac
  while [[ $# -ge 2 ]]; do
    case $1 in
      --minor) minor=$2 ;;
      --only) only+=("$2") ;;
      *) break ;;
    esac
    shift 2
  done
  [[ $# -eq 1 && $1 != -* && (${#only[@]} -eq 0 || $command == reverse) ]] || { series_usage >&2 && return 2; }
  "series_$command" "$1" "$minor" ${only[@]+"${only[@]}"}
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  series_main "$@"
fi
