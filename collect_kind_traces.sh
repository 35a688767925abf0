#!/usr/bin/env bash
# Collects a dump of all that Kubernetes asks of etcd: a kind cluster built from a patched Kubernetes clone, on an etcd of
# an etcd clone, both traced by Jaeger, runs Kubernetes' own e2e and cmd tests. See docs/collect.md.
set -euo pipefail

script_name=collect_kind_traces
MIN_DISK_GB=${MIN_DISK_GB:-40}
MIN_MEMORY_GB=${MIN_MEMORY_GB:-12}
# shellcheck source=collect_common.sh
source "$(dirname "${BASH_SOURCE[0]}")/collect_common.sh"

# kind-with-tracing.yaml and apiserver-shared-conf/tracing.yaml name these too.
cluster=kind-with-external-etcd
network=$cluster
subnet=192.168.32.0/24
gateway=192.168.32.1
etcd_url=http://$gateway:2379
tracing_config=/etc/kubernetes/apiserver-shared-conf/tracing.yaml

jaeger_name=$cluster-jaeger
node=$cluster-control-plane
image=etcd-coverage/node:$(date +%Y%m%d-%H%M%S)-$$
# hack/lib/etcd.sh of Kubernetes refuses a port on which anything listens, on any address.
cmd_tests_etcd_port=12379

KUBERNETES_REPO=$(absolute_path "${KUBERNETES_REPO:-$(default_repo k8s.io/kubernetes)}")
ETCD_REPO=$(absolute_path "${ETCD_REPO:-$(default_repo go.etcd.io/etcd)}")
OUTPUT=$(absolute_path "${OUTPUT:-$project/testdata/traces.json}")
DATA_DIR=${DATA_DIR:+$(absolute_path "$DATA_DIR")}
E2E_FOCUS=${E2E_FOCUS:-'\[sig-apps\].*\[Conformance\]'}
E2E_NODES=${E2E_NODES:-2}
TRACE_SECONDS=${TRACE_SECONDS:-30}
COMPACTION_SECONDS=${COMPACTION_SECONDS:-600}
export KUBECONFIG=${KUBECONFIG:-$KUBERNETES_REPO/kind-with-tracing-config}

print_help() {
    cat <<EOF
Usage: ./collect_kind_traces.sh [--dry-run] [--keep] [--help]

Collects a dump of traces from a kind cluster on an etcd outside of it, while Kubernetes' e2e and cmd tests run.
Takes an hour or more, and Docker Engine on Linux. 'make k8s-coverage' builds etcd, runs this, and judges the dump.

  --dry-run   print the commands of each step, run none
  --keep      leave cluster, etcd, Jaeger and network as they are at the end (patches are reversed all the same)

Environment, with its value now:
  KUBERNETES_REPO    git clone of Kubernetes 1.34 to 1.37, with tags [$KUBERNETES_REPO]
  ETCD_REPO          git clone of etcd, built: bin/etcd [$ETCD_REPO]
  KUBECONFIG         where kind writes the access to the cluster [$KUBECONFIG]
  DATA_DIR           etcd's data, a new or empty directory [a temporary one]
  OUTPUT             the dump; .gz compresses [$OUTPUT]
  E2E_FOCUS          which e2e tests run, a regular expression [$E2E_FOCUS]
  E2E_NODES          worker nodes that the e2e tests may count on (--num-nodes) [$E2E_NODES]
  TRACE_SECONDS      time the first traces have to show in Jaeger [$TRACE_SECONDS]
  COMPACTION_SECONDS least time from the start of the cluster to the download [$COMPACTION_SECONDS];
                     the apiserver compacts every 5 minutes, at first after 10
EOF
    common_environment
}

by_hand() {
    cat <<EOF
   kind delete cluster --name $cluster
   docker rm --force $jaeger_name
   docker network rm $network
   docker image rm $image
EOF
    servers_by_hand
}

# ---- preflight -------------------------------------------------------------------------------------------------------

preflight() {
    if $dry_run; then
        say "   (tools, Docker, clones and their tags, patches, disk, memory, ports, network: all problems in one list)"
        return
    fi
    [[ $(uname -s) == Linux ]] || problem "Linux is needed: elsewhere $gateway is an address inside Docker's virtual machine"
    need_tool kind "go install sigs.k8s.io/kind@latest" || true
    need_tool git "install git" || true
    need_tool go "see go.dev/doc/install" || true
    need_tool make "install make" || true
    need_tool kubectl "see kubernetes.io/docs/tasks/tools" || true
    need_tool curl "install curl" || true
    need_tool ip "install iproute2" || true
    need_tool openssl "install openssl (make test-cmd uses it)" || true
    if need_tool ss "install iproute2"; then
        need_free_port 2379 etcd
        need_free_port 4317 "Jaeger's collector"
        need_free_port 16686 "Jaeger's query API"
        need_free_port $cmd_tests_etcd_port "etcd of the cmd tests"
    fi
    if need_docker; then
        check_docker_host
        check_network
        need_no_container $jaeger_name
        if read_output kind get clusters && [[ $'\n'$output$'\n' == *$'\n'$cluster$'\n'* ]]; then
            problem "a kind cluster $cluster is left from an earlier run: kind delete cluster --name $cluster"
        fi
    fi
    need_repo KUBERNETES_REPO hack/lib/etcd.sh && check_kubernetes
    need_repo ETCD_REPO Makefile && check_etcd
    [[ -z $DATA_DIR || ! -e $DATA_DIR ]] || [[ -d $DATA_DIR && -z $(ls -A "$DATA_DIR") ]] ||
        problem "DATA_DIR is not an empty directory: $DATA_DIR"
    [[ $E2E_NODES =~ ^[0-9]+$ ]] || problem "E2E_NODES is not a number: $E2E_NODES"
    [[ $KUBECONFIG != *:* ]] || problem "KUBECONFIG names several files, one is needed: $KUBECONFIG"
    need_memory "$MIN_MEMORY_GB"
    need_writable_output "$OUTPUT"
    stop_on_problems
}

check_docker_host() {
    read_output docker buildx version || problem "docker has no buildx: install the plugin docker-buildx"
    read_output docker info --format '{{.OperatingSystem}} {{.SecurityOptions}}' || true
    case $output in
    *"Docker Desktop"*) problem "Docker Desktop is not supported: $gateway would be an address inside its virtual machine" ;;
    *name=rootless*) problem "rootless Docker is not supported: $gateway would be an address inside its namespace" ;;
    esac
    case ${DOCKER_HOST:-unix:} in
    unix:*) ;;
    *) problem "a Docker Engine on another host is not supported: DOCKER_HOST=$DOCKER_HOST" ;;
    esac
}

# A network of our name must be as we would make it; nothing else may use our addresses.
check_network() {
    local name configs config ids
    read_output docker network ls --quiet || true
    read -ra ids -d '' <<<"$output" || true
    ((${#ids[@]} == 0)) || read_output docker network inspect \
        --format '{{.Name}}{{range .IPAM.Config}} {{.Subnet}},{{.Gateway}}{{end}}' "${ids[@]}" ||
        problem "docker cannot list its networks: $(tail -n 1 "$step_log")"
    while read -r name configs; do
        if [[ $name == "$network" ]]; then
            reuse_network=true
            [[ $configs == "$subnet,$gateway" ]] ||
                problem "the network $network is not $subnet,$gateway but ${configs:-empty}: docker network rm $network"
        else
            for config in $configs; do
                ! overlaps "${config%,*}" "$subnet" ||
                    problem "the Docker network $name uses ${config%,*}, and $subnet is needed: docker network rm $name"
            done
        fi
    done <<<"$output"
    $reuse_network || check_routes
}

check_routes() {
    local scope route
    for scope in root match; do # routes within our addresses, and routes around them
        read_output ip -4 route show "$scope" "$subnet" || continue
        while read -r route; do
            [[ -z $route || $route == default* ]] || problem "this machine has a route that takes $subnet: $route"
        done <<<"$output"
    done
}

# overlaps SUBNET SUBNET: IPv4; they do if they agree in the bits that both fix.
overlaps() {
    local bits
    [[ $1 == *.*/* && $2 == *.*/* ]] || return 1
    bits=$((${1#*/} < ${2#*/} ? ${1#*/} : ${2#*/}))
    ((bits == 0 || $(address_number "${1%/*}") >> (32 - bits) == $(address_number "${2%/*}") >> (32 - bits)))
}

address_number() {
    local a b c d
    IFS=. read -r a b c d <<<"$1"
    printf '%d\n' $(((a << 24) + (b << 16) + (c << 8) + d))
}

# ---- the steps -------------------------------------------------------------------------------------------------------

build_node_image() {
    $keep || on_exit "remove the node image" remove_image
    run kind build node-image --image "$image" "$KUBERNETES_REPO"
    run docker image inspect "$image"
}

remove_image() { [[ -z $(docker image ls --quiet "$image") ]] || docker image rm --force "$image"; }

make_network() {
    if $reuse_network; then
        say "   the network $network exists and fits; it will be left as it is"
        return
    fi
    $keep || on_exit "remove the network" remove_network
    run docker network create --driver bridge --subnet "$subnet" --gateway "$gateway" "$network"
}

remove_network() {
    [[ -z $(docker network ls --quiet --filter "name=^$network\$") ]] || docker network rm "$network"
}

# Reachable from this machine and from the nodes, not from the networks around.
start_jaeger() {
    start_jaeger_container "$jaeger_name" --network "$network" --publish 127.0.0.1:16686:16686 \
        --publish 127.0.0.1:4317:4317 --publish "$gateway:4317:4317"
}

start_etcd() {
    DATA_DIR=${DATA_DIR:-${TMPDIR:-/tmp}/etcd-coverage-$$}
    if [[ ! -e $DATA_DIR ]]; then
        $keep || on_exit "remove etcd's data" remove_data_dir
        run mkdir -p "$DATA_DIR"
        run chmod 700 "$DATA_DIR"
    fi
    # Any peer port: the etcd of the cmd tests of Kubernetes 1.34 takes the usual one.
    start_server etcd env ETCD_LISTEN_PEER_URLS=http://localhost:0 "$ETCD_REPO/bin/etcd" \
        --watch-progress-notify-interval=5s --data-dir "$DATA_DIR" \
        --listen-client-urls "$etcd_url" --advertise-client-urls "$etcd_url" \
        --enable-distributed-tracing --distributed-tracing-address="$gateway:4317" \
        --distributed-tracing-service-name=etcd --distributed-tracing-sampling-rate=1000000
    wait_until "$READY_SECONDS" etcd_is_healthy || {
        last_lines "$LOG_DIR/etcd.log"
        fail "etcd is not healthy after $READY_SECONDS s (log: $LOG_DIR/etcd.log)"
    }
}

remove_data_dir() { rm -rf "$DATA_DIR"; }

etcd_is_healthy() {
    need_server etcd
    run "$ETCD_REPO/bin/etcdctl" --endpoints "$etcd_url" endpoint health
}

create_cluster() {
    [[ -e $KUBECONFIG ]] || $keep || on_exit "remove the kubeconfig" remove_kubeconfig
    $keep || on_exit "delete the cluster" delete_cluster
    # --retain: a failed cluster stays for its logs, until the clean-up.
    run env KIND_EXPERIMENTAL_DOCKER_NETWORK="$network" kind create cluster --name "$cluster" \
        --config kind-with-tracing.yaml --image "$image" --wait 5m --retain || {
        show_apiserver_log
        fail "kind could not create the cluster (log: $step_log)"
    }
    run kubectl --context "kind-$cluster" wait --for=condition=Ready node --all --timeout=5m
    cluster_started=$SECONDS
}

delete_cluster() {
    kind delete cluster --name "$cluster"
    ! kind get clusters | grep --quiet --line-regexp "$cluster"
}

remove_kubeconfig() { rm -f "$KUBECONFIG"; }

show_apiserver_log() {
    read_output docker exec "$node" bash -c 'tail -n 20 /var/log/containers/kube-apiserver-*.log' || true
    [[ -z $output ]] || printf 'The last lines of the apiserver on %s:\n%s\n' "$node" "$output" >&2
}

# kind ignores a kubeadm patch that does not meet its version: only the process tells what is in force.
check_flags() {
    local asked wrong=()
    # shellcheck disable=SC2016 # expanded on the node
    read_output docker exec "$node" bash -c 'tr "\0" "\n" <"/proc/$(pgrep --exact --oldest kube-apiserver)/cmdline"'
    for asked in "--etcd-servers=$etcd_url" "--tracing-config-file=$tracing_config"; do
        $dry_run || grep --quiet --line-regexp --fixed-strings -e "$asked" <<<"$output" ||
            wrong+=("asked for $asked, it runs with $(grep -e "^${asked%%=*}=" <<<"$output" || printf 'no %s' "${asked%%=*}")")
    done
    if ((${#wrong[@]} > 0)); then
        printf 'apiserver: %s\n' "${wrong[@]}" >&2
        fail "kind-with-tracing.yaml had no effect: no kubeadm patch in it is of the version that this kind writes"
    fi
}

check_traces() {
    local answer
    wait_until "$TRACE_SECONDS" jaeger_has apiserver etcd || {
        answer=$output
        show_apiserver_log
        last_lines "$LOG_DIR/etcd.log"
        fail "Jaeger has no traces of apiserver and etcd after $TRACE_SECONDS s, it answers: ${answer:-nothing}"
    }
}

run_e2e_tests() {
    local status=0
    run make -C "$KUBERNETES_REPO" WHAT=test/e2e/e2e.test
    run "$KUBERNETES_REPO/_output/bin/e2e.test" --provider=skeleton --kubeconfig="$KUBECONFIG" --context="kind-$cluster" \
        --ginkgo.focus="$E2E_FOCUS" --ginkgo.no-color --num-nodes="$E2E_NODES" || status=$?
    report "e2e tests" "$status" '^Ran [1-9][0-9]* of .* Specs' '^(Ran .* Specs|(FAIL|SUCCESS)! --).*'
    need_server etcd
}

run_cmd_tests() {
    local status=0
    # A kubeconfig of their own: these tests write to it.
    run env PATH="$ETCD_REPO/bin:$PATH" ETCD_PORT=$cmd_tests_etcd_port KUBECONFIG="$LOG_DIR/cmd-tests.kubeconfig" \
        make -C "$KUBERNETES_REPO" test-cmd || status=$?
    report "cmd tests" "$status" '^Running command: run_' '^FAILED TESTS.*|TESTS PASSED'
    need_server etcd
}

# Compaction is part of what Kubernetes asks of etcd, and its first request comes late.
wait_for_compaction() {
    local left=$((COMPACTION_SECONDS - (SECONDS - cluster_started)))
    if $dry_run; then
        say "   (until the cluster is $COMPACTION_SECONDS s old)"
    elif ((left > 0)); then
        run sleep "$left"
    fi
    need_server etcd
}

download_dump() { download etcd "$OUTPUT"; }

reuse_network=false
cluster_started=0

parse_options "$@"
begin
step "preflight" preflight
step "prepare the downloader" prepare_download
step "patch Kubernetes" apply_patches
step "build the node image $image" build_node_image
step "make the network $network" make_network
step "start Jaeger" start_jaeger
step "start etcd" start_etcd
step "create the cluster $cluster" create_cluster
step "compare the apiserver's flags with what was asked" check_flags
step "wait for the first traces" check_traces
step "run the e2e tests" run_e2e_tests
step "run the cmd tests" run_cmd_tests
step "wait for compaction" wait_for_compaction
step "download the traces to $OUTPUT" download_dump
tell_results
