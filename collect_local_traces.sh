#!/usr/bin/env bash
# Collects a dump of what a Kubernetes control plane asks of etcd, without Docker: all its servers run on loopback, kwok
# plays the kubelets of fake nodes, and a workload of the project keeps them busy. See docs/collect.md.
set -euo pipefail

script_name=collect_local_traces
MIN_DISK_GB=${MIN_DISK_GB:-10}
READY_SECONDS=${READY_SECONDS:-180}
# shellcheck source=collect_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/collect_common.sh"

tools=$project/.tools/bin
minors=("$project"/tools/kubernetes/1.*/)
minors=("${minors[@]%/}")
minors=("${minors[@]##*/}") # in order: all have two digits
# kube-apiserver refuses a loopback address here; nothing has to have this one (TEST-NET-1, RFC 5737).
advertise_address=192.0.2.1

minor=${minors[-1]}
minutes=12
cmd_tests=false

KUBERNETES_REPO=${KUBERNETES_REPO:+$(absolute_path "$KUBERNETES_REPO")}
ETCD_REPO=${ETCD_REPO:+$(absolute_path "$ETCD_REPO")}
JAEGER_BIN=${JAEGER_BIN:+$(absolute_path "$JAEGER_BIN")}
OUTPUT=${OUTPUT:+$(absolute_path "$OUTPUT")}
E2E_TEST=${E2E_TEST:+$(absolute_path "$E2E_TEST")}
E2E_FOCUS=${E2E_FOCUS:-'\[sig-(apps|api-machinery)\].*\[Conformance\]'}
NODES=${NODES:-3}
COMPACTION_INTERVAL=${COMPACTION_INTERVAL:-5m}
TRACE_SECONDS=${TRACE_SECONDS:-30}

print_help() {
    cat <<EOF
Usage: ./collect_local_traces.sh [--kubernetes MINOR] [--minutes N] [--cmd-tests] [--dry-run] [--keep] [--help]

Collects a dump of traces from a Kubernetes control plane on this machine's loopback, on free ports, without root and
without Docker. The first run of a minor builds it, which takes minutes. 'make local-coverage' runs this and judges the dump.

  --kubernetes MINOR  ${minors[*]} [$minor]
  --minutes N         how long the workload runs [$minutes]; the apiserver compacts every 5 minutes, at first after 10
  --cmd-tests         run Kubernetes' cmd tests of the clone KUBERNETES_REPO in place of the cluster and the workload
  --dry-run           print the commands of each step, run none
  --keep              leave the servers running at the end

Environment, with its value now:
  KUBERNETES_REPO    git clone of Kubernetes, with tags, to build from [${KUBERNETES_REPO:-none: from pinned Go modules}]
  ETCD_REPO          git clone of etcd, built: bin/etcd [${ETCD_REPO:-none: from a pinned Go module}]
  JAEGER_BIN         a Jaeger 2 binary [${JAEGER_BIN:-none: from a pinned Go module}]
  OUTPUT             the dump; .gz compresses [${OUTPUT:-testdata/kubernetes-MINOR-local.json.gz}]
  E2E_TEST           an e2e.test of Kubernetes to run after the workload [${E2E_TEST:-none}]
  E2E_FOCUS          which of its tests run, a regular expression [$E2E_FOCUS]
  NODES              how many fake nodes there are [$NODES]
  COMPACTION_INTERVAL  of the apiserver [$COMPACTION_INTERVAL]
  TRACE_SECONDS      time the first traces have to show in Jaeger [$TRACE_SECONDS]
EOF
    common_environment
}

parse_option() {
    case $1 in
    --kubernetes | --minutes)
        (($# > 1)) || usage_error "$1 needs a value"
        taken=2
        ;;
    --cmd-tests) taken=1 ;;
    esac
    case $1 in
    --kubernetes)
        [[ " ${minors[*]} " == *" $2 "* ]] || usage_error "--kubernetes $2 is none of ${minors[*]}"
        minor=$2
        ;;
    --minutes)
        [[ $2 =~ ^[1-9][0-9]{0,3}$ ]] || usage_error "--minutes $2 is no number from 1 to 9999"
        minutes=$2
        ;;
    --cmd-tests) cmd_tests=true ;;
    esac
}

by_hand() {
    servers_by_hand
    say "   rm -r $(quoted "$work")"
}

# ---- preflight -------------------------------------------------------------------------------------------------------

preflight() {
    if $dry_run; then
        say "   (tools, clones, patches, disk, memory, the place of the dump: all problems in one list)"
        return
    fi
    need_tool go "see go.dev/doc/install" || true
    need_tool make "install make" || true
    need_tool git "install git" || true
    need_tool curl "install curl" || true
    need_tool openssl "install openssl" || true
    need_tool ss "install iproute2" || true
    [[ -z $KUBERNETES_REPO ]] || ! need_repo KUBERNETES_REPO hack/lib/etcd.sh || check_kubernetes
    [[ -z $kubernetes_tag || $kubernetes_tag == "v$minor."* ]] ||
        problem "KUBERNETES_REPO is at $kubernetes_tag: check out a v$minor, or name its release with --kubernetes"
    [[ -z $ETCD_REPO ]] || ! need_repo ETCD_REPO Makefile || check_etcd
    need_program JAEGER_BIN
    need_program E2E_TEST
    [[ $NODES =~ ^[1-9][0-9]{0,2}$ ]] || problem "NODES is no number from 1 to 999: $NODES"
    ! $cmd_tests || check_cmd_tests
    need_disk "$project" "$MIN_DISK_GB"
    need_memory "$MIN_MEMORY_GB"
    need_writable_output "$OUTPUT"
    stop_on_problems
}

check_cmd_tests() {
    [[ -n $KUBERNETES_REPO ]] || problem "--cmd-tests needs KUBERNETES_REPO, a git clone of Kubernetes"
    # Their apiserver looks for the address that it advertises.
    ! need_tool ip "install iproute2" || { read_output ip -4 route show default && [[ -n $output ]]; } ||
        problem "--cmd-tests needs a default route: their apiserver finds its address by it"
}

# ---- the steps -------------------------------------------------------------------------------------------------------

build_programs() {
    local -a wanted=(kube-apiserver kube-controller-manager kube-scheduler kubectl)
    local -a targets=()
    [[ -n $ETCD_REPO ]] || targets+=(.tools/bin/etcd)
    [[ -n $JAEGER_BIN ]] || targets+=(.tools/bin/jaeger)
    $cmd_tests || targets+=(.tools/bin/kwok)
    ((${#targets[@]} == 0)) || run make "${targets[@]}"
    ! $cmd_tests || return 0
    if [[ -n $KUBERNETES_REPO ]]; then
        run make -C "$KUBERNETES_REPO" WHAT="${wanted[*]/#/cmd/}"
    else
        run tools/kubernetes/build.sh "$minor"
    fi
}

patch_clone() {
    if [[ -n $KUBERNETES_REPO ]]; then
        apply_patches
    else
        say "   the build from Go modules patches a copy"
    fi
}

# Sets ${ports[...]}: nothing listens on them, and they are below those that Linux hands out by itself.
choose_ports() {
    local name port listeners
    read_output ss -Hltn
    listeners=$(awk '{sub(/.*:/, "", $4); print $4}' <<<"$output")
    for name in jaeger_grpc jaeger_http otlp etcd apiserver controllers scheduler kwok; do
        while port=$((10000 + RANDOM % 22000)); do
            [[ $'\n'$listeners$'\n' == *$'\n'$port$'\n'* || " ${ports[*]-} " == *" $port "* ]] || break
        done
        ports[$name]=$port
    done
}

# Ports, keys, and the files that tell the servers of each other.
configure() {
    local token
    choose_ports
    $keep || on_exit "remove the servers' files" remove_work
    kept=true
    run mkdir -m 700 "$work" "$work/etcd"
    jaeger_url=http://127.0.0.1:${ports[jaeger_http]}
    etcd_url=http://127.0.0.1:${ports[etcd]}
    ! $dry_run || return 0
    jaeger_config >"$work/jaeger.json"
    sed "s|^endpoint: .*|endpoint: 127.0.0.1:${ports[otlp]}|" apiserver-shared-conf/tracing.yaml >"$work/tracing.yaml"
    ! $cmd_tests || return 0
    read_output openssl rand -hex 16
    token=$output
    printf '%s,local-admin,local-admin,system:masters\n' "$token" >"$work/tokens.csv"
    kubeconfig >"$KUBECONFIG"
    run openssl genrsa -out "$work/service-accounts.key" 2048
}

remove_work() { rm -rf "$work"; }

jaeger_config() {
    cat <<EOF
{
  "service": {
    "extensions": ["jaeger_storage", "jaeger_query"],
    "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}},
    "telemetry": {"metrics": {"level": "none"}}
  },
  "extensions": {
    "jaeger_query": {
      "storage": {"traces": "some_storage"},
      "http": {"endpoint": "127.0.0.1:${ports[jaeger_http]}"},
      "grpc": {"endpoint": "127.0.0.1:${ports[jaeger_grpc]}"}
    },
    "jaeger_storage": {"backends": {"some_storage": {"memory": {}}}}
  },
  "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:${ports[otlp]}"}}}},
  "exporters": {"jaeger_storage_exporter": {"trace_storage": "some_storage"}}
}
EOF
}

kubeconfig() {
    cat <<EOF
apiVersion: v1
kind: Config
current-context: local
contexts: [{name: local, context: {cluster: local, user: local-admin}}]
users: [{name: local-admin, user: {token: $token}}]
clusters: [{name: local, cluster: {server: "https://127.0.0.1:${ports[apiserver]}", certificate-authority: certificates/apiserver.crt}}]
EOF
}

start_jaeger() {
    JAEGER_BIN=${JAEGER_BIN:-$tools/jaeger}
    start_jaeger_binary --config "$work/jaeger.json"
}

start_etcd() {
    start_server etcd "$etcd" --watch-progress-notify-interval=5s --data-dir "$work/etcd" \
        --listen-client-urls "$etcd_url" --advertise-client-urls "$etcd_url" --listen-peer-urls http://127.0.0.1:0 \
        --enable-distributed-tracing --distributed-tracing-address="127.0.0.1:${ports[otlp]}" \
        --distributed-tracing-service-name=etcd --distributed-tracing-sampling-rate=1000000
    await_server etcd "$etcd_url/health"
}

# await_server NAME URL
await_server() {
    wait_until "$READY_SECONDS" server_answers "$@" || {
        last_lines "$LOG_DIR/$1.log"
        fail "$1 does not answer after $READY_SECONDS s (log: $LOG_DIR/$1.log)"
    }
}

server_answers() {
    need_server "$1"
    answers "$2"
}

start_apiserver() {
    start_server kube-apiserver "$kubernetes/kube-apiserver" \
        --bind-address=127.0.0.1 --secure-port="${ports[apiserver]}" --advertise-address=$advertise_address \
        --cert-dir="$work/certificates" --token-auth-file="$work/tokens.csv" --authorization-mode=Node,RBAC \
        --etcd-servers="$etcd_url" --etcd-compaction-interval="$COMPACTION_INTERVAL" \
        --tracing-config-file="$work/tracing.yaml" --service-cluster-ip-range=10.96.0.0/16 \
        --service-account-issuer=https://kubernetes.default.svc.cluster.local \
        --service-account-key-file="$work/service-accounts.key" \
        --service-account-signing-key-file="$work/service-accounts.key" \
        --shutdown-delay-duration=0s --shutdown-watch-termination-grace-period=1s
    wait_until "$READY_SECONDS" apiserver_is_ready || {
        last_lines "$LOG_DIR/kube-apiserver.log"
        fail "kube-apiserver is not ready after $READY_SECONDS s (log: $LOG_DIR/kube-apiserver.log)"
    }
}

apiserver_is_ready() {
    need_server kube-apiserver
    run "$kubernetes/kubectl" get --raw=/readyz
}

start_the_rest() {
    # The authority is the last of these certificates.
    $dry_run || awk '/BEGIN/ {text = ""} {text = text $0 "\n"} END {printf "%s", text}' \
        "$work/certificates/apiserver.crt" >"$work/authority.crt"
    start_server kube-controller-manager "$kubernetes/kube-controller-manager" --kubeconfig="$KUBECONFIG" \
        --bind-address=127.0.0.1 --secure-port="${ports[controllers]}" --cert-dir="$work/controllers" \
        --use-service-account-credentials --service-account-private-key-file="$work/service-accounts.key" \
        --root-ca-file="$work/authority.crt"
    start_server kube-scheduler "$kubernetes/kube-scheduler" --kubeconfig="$KUBECONFIG" \
        --bind-address=127.0.0.1 --secure-port="${ports[scheduler]}" --cert-dir="$work/scheduler"
    start_server kwok "$tools/kwok" --kubeconfig="$KUBECONFIG" --config="$tools/kwok-stages.yaml" \
        --manage-all-nodes --node-lease-duration-seconds=40 --server-address="127.0.0.1:${ports[kwok]}"
}

add_nodes() {
    $dry_run || nodes >"$work/nodes.yaml"
    run "$kubernetes/kubectl" apply -f "$work/nodes.yaml"
    wait_until "$READY_SECONDS" nodes_are_ready || fail "the nodes are not ready after $READY_SECONDS s (logs: $LOG_DIR)"
}

nodes_are_ready() {
    need_servers
    run "$kubernetes/kubectl" wait --for=condition=Ready node --all --timeout=1s
}

nodes() {
    local i
    for ((i = 1; i <= NODES; i++)); do
        cat <<EOF
---
apiVersion: v1
kind: Node
metadata: {name: node-$i, labels: {kubernetes.io/hostname: node-$i}}
status:
  allocatable: {cpu: 32, memory: 256Gi, pods: 110}
  capacity: {cpu: 32, memory: 256Gi, pods: 110}
EOF
    done
}

check_traces() {
    wait_until "$TRACE_SECONDS" jaeger_has apiserver etcd || {
        fail "Jaeger has no traces of apiserver and etcd after $TRACE_SECONDS s, it answers: ${output:-nothing}"
    }
}

run_workload() {
    local status=0
    run tools/kubernetes/workload.sh "$kubernetes/kubectl" "$minutes" || status=$?
    need_servers
    report "workload" "$status" '^ok: ' '^[0-9]+ parts ran.*'
}

need_servers() {
    local name
    for name in "${!server_groups[@]}"; do need_server "$name"; done
}

run_e2e_tests() {
    local status=0
    if [[ -z $E2E_TEST ]]; then
        say "   none: E2E_TEST is not set"
        return
    fi
    run "$E2E_TEST" --provider=skeleton --kubeconfig="$KUBECONFIG" --ginkgo.focus="$E2E_FOCUS" --ginkgo.no-color \
        --num-nodes="$NODES" || status=$?
    need_servers
    report "e2e tests" "$status" '^Ran [1-9][0-9]* of .* Specs' '^(Ran .* Specs|(FAIL|SUCCESS)! --).*'
}

run_cmd_tests() {
    local status=0
    # A kubeconfig of their own: these tests write to it.
    run env PATH="${etcd%/*}:$PATH" ETCD_PORT="${ports[etcd]}" SECURE_API_PORT="${ports[apiserver]}" \
        SECURE_CTLRMGR_PORT="${ports[controllers]}" KUBECONFIG="$work/cmd-tests.kubeconfig" \
        ETCD_DISTRIBUTED_TRACING_ADDRESS="127.0.0.1:${ports[otlp]}" KUBE_TRACING_CONFIG_FILE="$work/tracing.yaml" \
        make -C "$KUBERNETES_REPO" test-cmd || status=$?
    report "cmd tests" "$status" '^Running command: run_' '^FAILED TESTS.*|TESTS PASSED'
}

# A server sends its last spans when it ends, so each ends before the one that it talks to.
stop_servers() {
    local name
    if $keep; then
        say "   they are kept, and so are their last spans"
        return
    fi
    for name in kwok kube-scheduler kube-controller-manager kube-apiserver etcd; do
        ! $dry_run || say "   (stop $name)"
        stop_server "$name"
        unset "server_groups[$name]"
    done
}

download_dump() { download etcd "$OUTPUT"; }

parse_options "$@"
OUTPUT=${OUTPUT:-$project/testdata/kubernetes-$minor-local.json.gz}
work=${TMPDIR:-/tmp}/etcd-coverage-local-$$
declare -A ports=()
etcd=${ETCD_REPO:+$ETCD_REPO/bin/etcd}
etcd=${etcd:-$tools/etcd}
kubernetes=${KUBERNETES_REPO:+$KUBERNETES_REPO/_output/bin}
kubernetes=${kubernetes:-$project/.tools/kubernetes-$minor/bin}
export KUBECONFIG=$work/kubeconfig KUBECACHEDIR=$work/kubectl-cache

begin
step "preflight" preflight
step "prepare the downloader" prepare_download
step "patch Kubernetes" patch_clone
step "build the programs" build_programs
step "choose ports, make keys" configure
step "start Jaeger" start_jaeger
if $cmd_tests; then
    step "run the cmd tests" run_cmd_tests
else
    step "start etcd" start_etcd
    step "start kube-apiserver" start_apiserver
    step "start the controllers, the scheduler and kwok" start_the_rest
    step "add the nodes" add_nodes
    step "wait for the first traces" check_traces
    step "run the workload for $minutes minutes" run_workload
    step "run the e2e tests" run_e2e_tests
    step "stop the servers" stop_servers
fi
step "download the traces to $OUTPUT" download_dump
tell_results
