# shellcheck shell=bash
# What the collect_*.sh scripts share: preflight, steps, child processes, clean-up, Jaeger, the download.
# Sourced, not run. A script sets `script_name`, sources this file, defines print_help and its steps, then calls
# parse_options, begin, and step for each step.
#
# Three rules make an interrupt safe at any time:
#  - a command that may take long runs as a child in a process group of its own, and the script waits for it: bash delays
#    a trap while a foreground command runs, but a signal ends `wait` at once; Ctrl-C reaches the script alone; one kill
#    ends the child with its descendants;
#  - what must be undone is registered with on_exit before it is done;
#  - clean-up steps run once each, newest first, without errexit, each in a process group of its own with a time limit.

if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 404)); then
    printf '%s: bash 4.4 or newer is needed, this is %s\n' "${script_name:?}" "$BASH_VERSION" >&2
    exit 1
fi

# When make runs the script, other projects' makes must not get its options.
unset MAKEFLAGS MFLAGS MAKELEVEL

project=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$project/.venv/bin/python
jaeger_url=http://localhost:16686

JAEGER_IMAGE=${JAEGER_IMAGE:-jaegertracing/jaeger:2.6.0}
LOG_DIR=${LOG_DIR:-$project/logs/${script_name:?}-$(date +%Y%m%d-%H%M%S)-$$}
MIN_DISK_GB=${MIN_DISK_GB:-5}
MIN_MEMORY_GB=${MIN_MEMORY_GB:-4}
READY_SECONDS=${READY_SECONDS:-60}
POLL_SECONDS=${POLL_SECONDS:-1}
STOP_SECONDS=${STOP_SECONDS:-30}
CLEANUP_SECONDS=${CLEANUP_SECONDS:-180}

dry_run=false
keep=false

# Shown by --help, after the script's own variables.
common_environment() {
    cat <<EOF
  JAEGER_IMAGE       image of Jaeger [$JAEGER_IMAGE]
  LOG_DIR            where the logs of the steps go [logs/NAME-TIME-PID in the project]
  MIN_DISK_GB        free disk space asked for [$MIN_DISK_GB]
  MIN_MEMORY_GB      available memory asked for [$MIN_MEMORY_GB]
  READY_SECONDS      time a server has to answer [$READY_SECONDS]
  POLL_SECONDS       pause between two looks at something awaited [$POLL_SECONDS]
  STOP_SECONDS       time a process has to end before it is killed [$STOP_SECONDS]
  CLEANUP_SECONDS    time limit of each clean-up step [$CLEANUP_SECONDS]

Exit code: 0 the dump is there, 1 it is not (the message names the log), 2 wrong usage, 129, 130 or 143 after a hang-up,
an interrupt or a termination. An earlier dump stays as it is unless a new one is complete.
EOF
}

say() { printf '%s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
fail() {
    printf 'error: %s\n' "$*" >&2
    last_command= # it is not what failed
    exit 1
}
usage_error() {
    printf '%s: %s (see --help)\n' "$script_name" "$*" >&2
    exit 2
}

# parse_option ARGUMENT...: a script's own options; sets how many arguments it has `taken`.
parse_option() { :; }

parse_options() {
    local taken
    while (($# > 0)); do
        case $1 in
        --help | -h)
            print_help
            exit 0
            ;;
        --dry-run) dry_run=true ;;
        --keep) keep=true ;;
        *)
            taken=0
            parse_option "$@"
            ((taken > 0)) || usage_error "unknown argument: $1"
            shift $((taken - 1))
            ;;
        esac
        shift
    done
}

absolute_path() {
    case $1 in
    /*) printf '%s\n' "$1" ;;
    *) printf '%s/%s\n' "$PWD" "$1" ;;
    esac
}

# default_repo PATH: where Go developers keep a clone.
default_repo() { printf '%s/src/%s\n' "$(go env GOPATH 2>/dev/null || printf '%s/go' "${HOME:-}")" "$1"; }

# quoted WORD...: as one could type it.
quoted() {
    local word text=
    for word in "$@"; do
        [[ $word =~ ^[A-Za-z0-9_@%+=:,./-]+$ ]] || word="'${word//\'/\'\\\'\'}'"
        text+="${text:+ }$word"
    done
    printf '%s\n' "$text"
}

last_lines() {
    [[ ! -s $1 ]] || tail -n "${2:-15}" "$1" | sed 's/^/   | /' >&2
}

# ---- child processes -------------------------------------------------------------------------------------------------

child=                       # process group of the newest child
last_command=                # what `run` ran last, for the failure message
output=                      # what read_output read
declare -A server_groups=()  # process groups of start_server, by name

# spawn COMMAND...: starts it in a process group of its own, $child.
spawn() {
    set -m
    "$@" </dev/null &
    child=$!
    set +m
}

# outlives GROUP SECONDS: has the process group still a process after so long?
outlives() {
    local started=$SECONDS pause=0.02
    while kill -0 -- "-$1" 2>/dev/null; do
        ((SECONDS - started <= $2)) || return 0
        ((SECONDS - started <= 1)) || pause=0.2
        sleep "$pause"
    done
    return 1
}

end_group() {
    kill -TERM -- "-$1" 2>/dev/null || return 0
    outlives "$1" "$STOP_SECONDS" || return 0
    warn "process group $1 did not end within $STOP_SECONDS s and is killed"
    kill -KILL -- "-$1" 2>/dev/null
    ! outlives "$1" 5
}

# Waits for $child; what it leaves running is ended.
await_child() {
    local status=0
    wait "$child" || status=$?
    end_group "$child"
    return "$status"
}

# run COMMAND...: runs it to its end, its output goes to the step's log; --dry-run prints it.
run() {
    note_command "$@" || return 0
    spawn "$@" >>"$step_log" 2>&1
    await_child
}

# run_shown COMMAND...: as run, but its output goes to the terminal (progress bars).
run_shown() {
    note_command "$@" || return 0
    spawn "$@" >&2
    await_child
}

# read_output COMMAND...: as run; what it printed is in $output.
read_output() {
    local status=0 file=$LOG_DIR/output
    output=
    note_command "$@" || return 0
    spawn "$@" >"$file" 2>>"$step_log"
    await_child || status=$?
    output=$(<"$file")
    rm -f "$file"
    return "$status"
}

# Prints the command in a dry run, and fails; else notes it.
note_command() {
    last_command=$(quoted "$@")
    if $dry_run; then
        say "   $last_command"
        return 1
    fi
    printf '+ %s\n' "$last_command" >>"$step_log"
}

# start_server NAME COMMAND...: in the background until the script ends (or for good with --keep); its log is NAME.log.
start_server() {
    $keep || on_exit "stop $1" stop_server "$1"
    note_command "${@:2}" || return 0
    kept=true
    spawn "${@:2}" >>"$LOG_DIR/$1.log" 2>&1
    server_groups[$1]=$child
}

stop_server() { [[ -z ${server_groups[$1]-} ]] || end_group "${server_groups[$1]}"; }

servers_by_hand() {
    local name
    for name in "${!server_groups[@]}"; do
        ! kill -0 -- "-${server_groups[$name]}" 2>/dev/null || say "   kill -- -${server_groups[$name]} # $name"
    done
}

# need_server NAME: fails with its last words if it has ended.
need_server() {
    $dry_run || kill -0 -- "-${server_groups[$1]}" 2>/dev/null || {
        last_lines "$LOG_DIR/$1.log"
        fail "$1 has ended (log: $LOG_DIR/$1.log)"
    }
}

# wait_until SECONDS COMMAND...: until it succeeds; fails when the time is over.
wait_until() {
    local deadline=$((SECONDS + $1))
    until "${@:2}"; do
        ((SECONDS < deadline)) || return 1
        run sleep "$POLL_SECONDS"
    done
}

answers() { run curl --noproxy '*' --fail --silent --show-error --max-time 5 --output /dev/null "$1"; }

# ---- preflight: every problem is found before anything is changed, and all are told at once --------------------------

problems=()
problem() { problems+=("$*"); }

stop_on_problems() {
    ((${#problems[@]} > 0)) || return 0
    {
        printf '%s cannot start; nothing was changed. Problems: %d\n' "$script_name" "${#problems[@]}"
        printf '  - %s\n' "${problems[@]}"
    } >&2
    step_title=
    exit 1
}

# need_tool NAME HINT: is it on PATH?
need_tool() {
    command -v "$1" >/dev/null || {
        problem "$1 is not on PATH: $2"
        return 1
    }
}

# need_repo VARIABLE FILE: is the variable's directory a git clone that has the file?
need_repo() {
    local directory=${!1}
    if [[ ! -e $directory/.git ]]; then
        problem "$1 is not a git clone: $directory"
    elif [[ ! -e $directory/$2 ]]; then
        problem "$1 has no $2: $directory"
    else
        return 0
    fi
    return 1
}

# need_program VARIABLE: is what the variable names, if it is set, a program?
need_program() {
    [[ -z ${!1} ]] || [[ -f ${!1} && -x ${!1} ]] || problem "$1 is not a program: ${!1}"
}

# need_free_port PORT PURPOSE: does nothing listen there, on any address?
need_free_port() {
    if ! read_output ss -Hltn "sport = :$1"; then
        problem "ss cannot tell whether port $1 ($2) is free: $(tail -n 1 "$step_log")"
    elif [[ -n $output ]]; then
        problem "port $1 ($2) is in use: see ss -ltnp 'sport = :$1'"
    fi
}

# need_disk DIRECTORY GB
need_disk() {
    local free_kb
    free_kb=$(df -Pk "$1" | awk 'NR == 2 {print $4}')
    ((free_kb >= $2 * 1024 * 1024)) || problem "$1 has $((free_kb / 1024 / 1024)) GB free, MIN_DISK_GB=$2 are needed"
}

need_memory() {
    local free_kb
    [[ -r /proc/meminfo ]] || return 0
    free_kb=$(awk '$1 == "MemAvailable:" {print $2}' /proc/meminfo)
    ((free_kb >= $1 * 1024 * 1024)) ||
        problem "$((free_kb / 1024 / 1024)) GB of memory are available, MIN_MEMORY_GB=$1 are needed"
}

need_writable_output() {
    local directory
    directory=$(dirname "$1")
    if [[ -d $1 ]]; then
        problem "OUTPUT is a directory: $1"
    elif [[ ! -d $directory || ! -w $directory ]]; then
        problem "OUTPUT cannot be written, its directory does not exist or is read-only: $directory"
    fi
}

# need_docker: does the daemon answer, and is it Docker's?
need_docker() {
    need_tool docker "install Docker Engine" || return 1
    if ! read_output docker version; then
        problem "docker does not answer: $(tail -n 1 "$step_log")"
        return 1
    fi
    case "$output ${KIND_EXPERIMENTAL_PROVIDER-}" in
    *[Pp]odman* | *nerdctl*)
        problem "podman and nerdctl are not supported, only Docker Engine is"
        return 1
        ;;
    esac
}

need_no_container() {
    if read_output docker ps --all --quiet --filter "name=^$1\$" && [[ -n $output ]]; then
        problem "a container $1 is left from an earlier run: docker rm --force $1"
    fi
}

# ---- steps -----------------------------------------------------------------------------------------------------------

step_count=0
step_title=
step_log=/dev/null

# step TITLE FUNCTION: says what it does and how long it took; a failure names its log (in finish).
step() {
    local started=$SECONDS
    step_count=$((step_count + 1))
    last_command=
    if $dry_run; then
        say "== $step_count. $1"
        "$2"
        return
    fi
    step_log=$LOG_DIR/$(printf '%02d-%s.log' "$step_count" "$2")
    say "== $step_count. $1 ($(date +%H:%M:%S), log: ${step_log##*/})"
    : >"$step_log"
    step_title=$1
    "$2" # not part of a condition: bash would switch errexit off inside
    step_title=
    say "   done in $((SECONDS - started)) s"
}

reports=()

# report TESTS STATUS RAN SUMMARY: a failed test is told, now and at the end; that no test ran is a failure. RAN and
# SUMMARY are extended regular expressions for lines of the step's log.
report() {
    local summary
    ! $dry_run || return 0
    grep --quiet --extended-regexp -e "$3" "$step_log" || fail "no test ran (exit code $2)"
    summary=$(grep --only-matching --extended-regexp -e "$4" "$step_log" | tail -n 2 | paste -sd ' ') || true
    reports+=("$1: exit code $2${summary:+, $summary} (log: ${step_log##*/})")
    say "   ${reports[-1]}"
}

tell_results() {
    $dry_run || printf '%s\n' "The dump is ${OUTPUT:?}" "${reports[@]}"
}

# ---- the start and the end of a script -------------------------------------------------------------------------------

# begin: from here on signals and failures are followed by clean-up.
begin() {
    cd "$project" || exit 1
    trap 'finish $?' EXIT
    trap 'finish 130' INT
    trap 'finish 143' TERM
    trap 'finish 129' HUP
    trap 'finish 141' PIPE # its output is read no more: Ctrl-C also ends the tee that it was piped into
    if ! $dry_run; then
        mkdir -p "$LOG_DIR"
        say "Logs: $LOG_DIR"
    fi
}

cleanups=() # "TITLE|COMMAND WORDS", oldest first

# on_exit TITLE COMMAND...: runs when the script ends, however it ends. Register it before the deed.
on_exit() { cleanups+=("$1|${*:2}"); }

run_cleanups() {
    local i entry status failed=0
    local -a words
    step_log=$LOG_DIR/clean-up.log
    for ((i = ${#cleanups[@]} - 1; i >= 0; i--)); do
        entry=${cleanups[i]}
        unset 'cleanups[i]'
        say "   ${entry%%|*}"
        ! $dry_run || continue
        printf '+ %s\n' "${entry#*|}" >>"$step_log"
        read -ra words <<<"${entry#*|}"
        spawn "${words[@]}" >>"$step_log" 2>&1
        status=0
        if outlives "$child" "$CLEANUP_SECONDS"; then
            kill -KILL -- "-$child" 2>/dev/null
            wait "$child" 2>/dev/null
            warn "not done within $CLEANUP_SECONDS s: ${entry%%|*}"
            failed=1
            continue
        fi
        wait "$child" 2>/dev/null || status=$?
        if ((status != 0)); then
            warn "failed: ${entry%%|*} (log: $step_log)"
            last_lines "$step_log" 5
            failed=1
        fi
    done
    return "$failed"
}

finishing=false

# finish STATUS: the traps' handler. Ends what still runs, says what failed, undoes what was done.
finish() {
    local status=$1 group
    if $finishing; then
        warn "still cleaning up"
        return
    fi
    finishing=true
    set +e
    trap - EXIT
    trap '' PIPE
    # jobs also knows a child that a signal kept from being noted; each server has a clean-up step of its own.
    for group in $(jobs -pr); do
        [[ " ${server_groups[*]-} " == *" $group "* ]] || end_group "$group"
    done
    if [[ $status =~ ^(129|130|141|143)$ ]]; then
        warn "interrupted in step $step_count: $step_title"
    elif [[ -n $step_title ]]; then
        printf 'error: step %d failed: %s\n' "$step_count" "$step_title" >&2
        [[ -z $last_command ]] || printf '   last command: %s\n' "$last_command" >&2
        last_lines "$step_log"
        printf '   log: %s\n' "$step_log" >&2
        status=1
    fi
    if ((${#cleanups[@]} > 0)); then
        say "== clean up"
        if ! run_cleanups; then
            ((status != 0)) || status=1
            by_hand >&2
        fi
    fi
    if $keep && $kept && ! $dry_run; then
        say "Kept, as asked. To remove it:"
        by_hand
    fi
    trap '' INT TERM HUP
    exit "$status"
}

# ---- clones of Kubernetes and etcd -----------------------------------------------------------------------------------

series=$project/patches/kubernetes/series.sh
patches_to_apply=false
kubernetes_tag=

check_kubernetes() {
    need_disk "$KUBERNETES_REPO" "$MIN_DISK_GB"
    if ! read_output git -C "$KUBERNETES_REPO" describe --tags --match 'v*' HEAD; then
        problem "KUBERNETES_REPO has no tags, its version is unknown: git -C $(quoted "$KUBERNETES_REPO") fetch --tags --unshallow"
        return
    fi
    kubernetes_tag=$output
    say "   Kubernetes $kubernetes_tag"
    check_patches
}

# All of the series fits, or nothing is done.
check_patches() {
    local line
    if ! read_output "$series" status "$KUBERNETES_REPO" && [[ -z $output ]]; then
        problem "$(tail -n 1 "$step_log")"
    fi
    while read -r line; do
        [[ -z $line ]] || say "   $line"
        case $line in
        *": applicable") patches_to_apply=true ;;
        *": does not fit "*) problem "$line" ;;
        esac
    done <<<"$output"
}

check_etcd() {
    if [[ ! -x $ETCD_REPO/bin/etcd || ! -x $ETCD_REPO/bin/etcdctl ]]; then
        problem "etcd is not built: make -C $(quoted "$ETCD_REPO") build"
    elif ! read_output "$ETCD_REPO/bin/etcd" --help || [[ $output != *--enable-distributed-tracing* ]]; then
        problem "this etcd has no --enable-distributed-tracing, 3.6 or newer is needed: $ETCD_REPO/bin/etcd"
    fi
}

apply_patches() {
    if ! $patches_to_apply && ! $dry_run; then
        say "   all are applied already and stay; $(quoted "$series" reverse "$KUBERNETES_REPO") reverses them"
        return
    fi
    on_exit "reverse the patches" reverse_patches
    run "$series" apply "$KUBERNETES_REPO"
}

reverse_patches() { "$series" reverse "$KUBERNETES_REPO"; }

# ---- Jaeger and the download -----------------------------------------------------------------------------------------

kept=false # is there something that --keep leaves behind?

jaeger_started=0

# The memory store of Jaeger drops the oldest traces at its limit, 100,000 by default.
jaeger_options=(--set=extensions.jaeger_storage.backends.some_storage.memory.max_traces=20000000)

# start_jaeger_container NAME DOCKER_OPTION...
start_jaeger_container() {
    kept=true
    $keep || on_exit "remove Jaeger" remove_container "$1"
    run docker run --detach --name "$1" "${@:2}" "$JAEGER_IMAGE" "${jaeger_options[@]}"
    await_jaeger || {
        run docker logs --tail 20 "$1" || true
        fail "Jaeger does not answer at $jaeger_url after $READY_SECONDS s"
    }
}

# start_jaeger_binary OPTION...: $JAEGER_BIN on loopback; options may set other ports, then set jaeger_url first.
start_jaeger_binary() {
    start_server jaeger "$JAEGER_BIN" "${jaeger_options[@]}" "$@"
    await_jaeger || {
        last_lines "$LOG_DIR/jaeger.log"
        fail "Jaeger does not answer at $jaeger_url after $READY_SECONDS s (log: $LOG_DIR/jaeger.log)"
    }
}

await_jaeger() {
    wait_until "$READY_SECONDS" jaeger_answers || return
    jaeger_started=$SECONDS
}
jaeger_answers() {
    [[ -z ${server_groups[jaeger]-} ]] || need_server jaeger
    answers "$jaeger_url/api/v3/services"
}

# jaeger_has SERVICE...: has Jaeger a trace of each?
jaeger_has() {
    local service
    read_output curl --noproxy '*' --fail --silent --show-error --max-time 5 "$jaeger_url/api/v3/services" || return
    ! $dry_run || return 0
    for service in "$@"; do
        [[ $output == *"\"$service\""* ]] || return 1
    done
}

# Docker's removals are checked by their outcome: what is gone already is no failure.
remove_container() {
    [[ -n $(docker ps --all --quiet --filter "name=^$1\$") ]] || return 0
    docker rm --force --volumes "$1"
}

prepare_download() {
    run make .venv/.installed
    run "$python" -m etcd_coverage.jaeger --help
}

# download SERVICE OUTPUT: all that Jaeger got; the downloader replaces OUTPUT only by a whole dump. It asks in windows,
# since Jaeger builds each answer in memory.
download() {
    run_shown "$python" -m etcd_coverage.jaeger --url "$jaeger_url" --service "$1" \
        --since "$((SECONDS - jaeger_started + 5))s" --window 10m -o "$2"
}
