#!/usr/bin/env bash
# Collects a dump of what etcd's robustness tests ask of etcd while they imitate Kubernetes. See docs/collect.md.
set -euo pipefail

script_name=collect_robustness_traces
# shellcheck source=collect_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/collect_common.sh"

jaeger_name=etcd-robustness-jaeger

ETCD_REPO=$(absolute_path "${ETCD_REPO:-$(default_repo go.etcd.io/etcd)}")
OUTPUT=$(absolute_path "${OUTPUT:-$project/testdata/demo_traces.json}")
JAEGER_BIN=${JAEGER_BIN:+$(absolute_path "$JAEGER_BIN")}
GO_TEST_FLAGS=${GO_TEST_FLAGS:-'--timeout 10m --count=1 -v --run "^TestRobustness.*/Kubernetes.*"'}

print_help() {
    cat <<EOF
Usage: ./collect_robustness_traces.sh [--dry-run] [--keep] [--help]

Collects a dump of traces of etcd's robustness tests. 'make robustness-coverage' runs this and judges the dump.

  --dry-run   print the commands of each step, run none
  --keep      leave Jaeger running

Environment, with its value now:
  ETCD_REPO          git clone of etcd [$ETCD_REPO]
  GO_TEST_FLAGS      flags of 'go test' [$GO_TEST_FLAGS]
  JAEGER_BIN         a Jaeger 2 binary to run in place of a container [${JAEGER_BIN:-none}]
  OUTPUT             the dump; .gz compresses [$OUTPUT]
EOF
    common_environment
}

by_hand() {
    [[ -n $JAEGER_BIN ]] || say "   docker rm --force $jaeger_name"
    servers_by_hand
}

preflight() {
    if $dry_run; then
        say "   (tools, Jaeger, the clone, disk, memory, ports: all problems in one list)"
        return
    fi
    need_tool git "install git" || true
    need_tool go "see go.dev/doc/install" || true
    need_tool make "install make" || true
    need_tool curl "install curl" || true
    if need_tool ss "install iproute2"; then
        need_free_port 4317 "Jaeger's collector"
        need_free_port 16686 "Jaeger's query API"
    fi
    if [[ -z $JAEGER_BIN ]]; then
        ! need_docker || need_no_container $jaeger_name
    else
        need_program JAEGER_BIN
    fi
    ! need_repo ETCD_REPO tests/robustness || need_disk "$ETCD_REPO" "$MIN_DISK_GB"
    need_memory "$MIN_MEMORY_GB"
    need_writable_output "$OUTPUT"
    stop_on_problems
}

start_jaeger() {
    if [[ -n $JAEGER_BIN ]]; then
        # shellcheck disable=SC2119 # no further options
        start_jaeger_binary
    else
        start_jaeger_container "$jaeger_name" --publish 127.0.0.1:16686:16686 --publish 127.0.0.1:4317:4317
    fi
}

run_robustness_tests() {
    local status=0
    run env TRACING_SERVER_ADDR=localhost:4317 GO_TEST_FLAGS="$GO_TEST_FLAGS" \
        make -C "$ETCD_REPO" test-robustness || status=$?
    report "robustness tests" "$status" '^=== RUN ' '^ *--- FAIL:.*'
}

download_dump() { download etcd "$OUTPUT"; }

parse_options "$@"
begin
step "preflight" preflight
step "prepare the downloader" prepare_download
step "start Jaeger" start_jaeger
step "run the robustness tests" run_robustness_tests
step "download the traces to $OUTPUT" download_dump
tell_results
