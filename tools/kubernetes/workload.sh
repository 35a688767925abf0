#!/usr/bin/env bash
# Makes a cluster ask etcd for all that Kubernetes asks of it, round after round, until the minutes are over.
set -uo pipefail

usage='Usage: KUBECONFIG=... tools/kubernetes/workload.sh KUBECTL MINUTES'
if [[ ${1-} == --help || ${1-} == -h ]]; then
    printf '%s\n' "$usage"
    exit 0
fi
[[ $# == 2 && $1 != -* && $2 =~ ^[1-9][0-9]{0,3}$ ]] || {
    printf '%s\n' "$usage" >&2
    exit 2
}
kubectl=$1
end=$((SECONDS + $2 * 60))
round=0
ran=0
failed=()
patience=120s

kube() { "$kubectl" "$@"; }
ours() { kube --namespace="$namespace" "$@"; }
raw() { kube get --raw="$1" >/dev/null; }

# part NAME: a function of this file. That it fails is told, and does not stop the others.
part() {
    local started=$SECONDS
    ran=$((ran + 1))
    # A shell of its own: errexit is off in a function that is part of a condition.
    (set -e; "$1") &
    if wait $!; then
        printf 'ok: %s, round %d, %d s\n' "$1" "$round" $((SECONDS - started))
    else
        printf 'failed: %s, round %d, %d s\n' "$1" "$round" $((SECONDS - started))
        failed+=("$1")
    fi
}

refused() {
    ! "$@" 2>/dev/null || {
        printf 'not refused: %s\n' "$*" >&2
        return 1
    }
}

# objects COUNT TEMPLATE: documents of YAML, N in the template is their number.
objects() {
    local i
    for ((i = 1; i <= $1; i++)); do printf -- '---\n%s\n' "${2//N/$i}"; done
}

namespace_with_quota() {
    kube create namespace "$namespace"
    kube label namespace "$namespace" round="$round"
    ours create quota limits --hard=pods=100,configmaps=500,services=20
    # Until a controller has counted, the quota refuses everything.
    ours wait --for=jsonpath='{.status.hard}' resourcequota/limits --timeout=$patience
    ours apply -f - <<YAML
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec: {limits: [{type: Container, defaultRequest: {cpu: 10m, memory: 10Mi}}]}
YAML
}

config_maps_in_pages() {
    local revision
    objects 120 '{apiVersion: v1, kind: ConfigMap, metadata: {name: page-N, labels: {of: pages}}, data: {n: "N"}}' |
        ours create -f - >/dev/null
    revision=$(ours get configmap page-1 -o jsonpath='{.metadata.resourceVersion}')
    ours get configmaps --chunk-size=25 -o name >/dev/null
    kube get configmaps --all-namespaces --chunk-size=50 -o name >/dev/null
    raw "/api/v1/namespaces/$namespace/configmaps?limit=10"
    raw "/api/v1/configmaps?limit=10&resourceVersion=0"
    raw "/api/v1/configmaps?resourceVersion=$revision&resourceVersionMatch=NotOlderThan"
    raw "/api/v1/namespaces/$namespace/configmaps?limit=10&resourceVersion=$revision&resourceVersionMatch=Exact"
    raw "/api/v1/namespaces/$namespace/configmaps?resourceVersion=$revision&resourceVersionMatch=Exact"
    raw "/api/v1/configmaps?resourceVersion=$revision&resourceVersionMatch=Exact&limit=20"
    ours delete configmaps --selector=of=pages >/dev/null
    # The keys are gone, the revision is not: what the cache cannot tell, etcd must.
    raw "/api/v1/namespaces/$namespace/configmaps?limit=10&resourceVersion=$revision&resourceVersionMatch=Exact"
}

secrets_and_service_accounts() {
    ours create secret generic secret --from-literal=a=b
    ours patch secret secret --type=merge --patch='{"stringData":{"a":"c"}}'
    ours get secret secret >/dev/null
    ours create serviceaccount account
    ours create token account >/dev/null
    ours apply -f - <<YAML
apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata: {name: account-token, annotations: {kubernetes.io/service-account.name: account}}
YAML
    ours delete secret secret account-token
    ours delete serviceaccount account
}

every_way_to_write() {
    local object
    ours create configmap written --from-literal=a=1
    ours apply --server-side --force-conflicts -f - <<<'{apiVersion: v1, kind: ConfigMap, metadata: {name: written}, data: {a: "2"}}'
    ours patch configmap written --type=json --patch='[{"op":"replace","path":"/data/a","value":"3"}]'
    ours patch configmap written --type=merge --patch='{"metadata":{"finalizers":["example.com/finalizer"]}}'
    ours annotate configmap written example.com/a=b
    ours apply --dry-run=server --server-side --force-conflicts -f - \
        <<<'{apiVersion: v1, kind: ConfigMap, metadata: {name: written}, data: {a: "4"}}'
    object=$(ours get configmap written -o json)
    ours label configmap written changed=meanwhile
    # A conflict, a name that is taken, and one that does not exist are refused.
    refused ours replace -f - <<<"$object"
    refused ours create configmap written
    refused ours get configmap absent
    ours delete configmap written --wait=false
    ours patch configmap written --type=merge --patch='{"metadata":{"finalizers":null}}'
    ours wait --for=delete configmap/written --timeout=$patience
}

deployment_and_rollouts() {
    ours create deployment web --image=registry.example/web:1 --replicas=3
    ours expose deployment web --port=80
    ours create poddisruptionbudget web --selector=app=web --min-available=1
    ours autoscale deployment web --min=2 --max=4 --cpu=50% 2>/dev/null || ours autoscale deployment web --min=2 --max=4 --cpu-percent=50
    ours rollout status deployment web --timeout=$patience
    ours set image deployment web web=registry.example/web:2
    ours rollout status deployment web --timeout=$patience
    ours rollout undo deployment web
    ours rollout restart deployment web
    ours rollout history deployment web >/dev/null
    ours scale deployment web --replicas=4
    ours rollout status deployment web --timeout=$patience
    ours get deployments,replicasets,pods -o wide >/dev/null
}

other_workloads() {
    local pod='metadata: {labels: {app: NAME}}, spec: {containers: [{name: c, image: registry.example/c}]}'
    ours apply -f - <<YAML
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: set}
spec: {replicas: 2, serviceName: set, selector: {matchLabels: {app: set}}, template: {${pod/NAME/set}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: daemons}
spec: {selector: {matchLabels: {app: daemons}}, template: {${pod/NAME/daemons}}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: replicas}
spec: {replicas: 2, selector: {matchLabels: {app: replicas}}, template: {${pod/NAME/replicas}}}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: controller}
spec: {replicas: 1, selector: {app: controller}, template: {${pod/NAME/controller}}}
YAML
    ours rollout status statefulset set --timeout=$patience
    ours rollout status daemonset daemons --timeout=$patience
    ours patch statefulset set --type=merge --patch='{"spec":{"template":{"metadata":{"labels":{"version":"2"}}}}}'
    ours rollout status statefulset set --timeout=$patience
    ours delete statefulset,daemonset,replicaset,replicationcontroller --all --cascade=foreground --timeout=$patience
}

jobs() {
    ours create job one --image=registry.example/job
    ours create cronjob minutely --image=registry.example/job --schedule='* * * * *'
    ours create job by-hand --from=cronjob/minutely
    ours wait --for=condition=Complete job/one job/by-hand --timeout=$patience
    ours delete job one
}

custom_resources() {
    local group=round-$round.example.com
    kube apply -f - <<YAML
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.$group}
spec:
  group: $group
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
YAML
    kube wait --for=condition=Established "customresourcedefinition/things.$group" --timeout=$patience
    until ours get "things.$group" >/dev/null 2>&1; do sleep 0.2; done
    objects 12 "{apiVersion: $group/v1, kind: Thing, metadata: {name: thing-N}, spec: {n: N}}" | ours create -f -
    ours get "things.$group" --chunk-size=5 >/dev/null
    ours patch "things.$group" thing-1 --type=merge --patch='{"spec":{"n":2}}'
    ours patch "things.$group" thing-1 --subresource=status --type=merge --patch='{"status":{"ready":true}}'
    ours delete "things.$group" thing-1
    ours delete "things.$group" --all
    kube delete customresourcedefinition "things.$group" --timeout=$patience
}

services_and_network() {
    ours create service clusterip plain --tcp=80:80
    ours create service nodeport node --tcp=80:80
    ours create ingress web --rule=web.example/=web:80
    ours apply -f - <<YAML
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: none}
spec: {podSelector: {}}
---
apiVersion: v1
kind: Endpoints
metadata: {name: by-hand}
subsets: [{addresses: [{ip: 192.0.2.9}], ports: [{port: 80}]}]
YAML
    ours patch service plain --type=merge --patch='{"spec":{"ports":[{"port":81}]}}'
    ours get services,endpoints,endpointslices,ingresses,networkpolicies >/dev/null 2>&1
    raw "/api/v1/services?limit=2"
    ours delete service plain node
    ours delete endpoints by-hand
}

cluster_wide_objects() {
    local name=round-$round
    kube create priorityclass "$name" --value=10
    kube create clusterrole "$name" --verb=get --resource=pods
    kube create clusterrolebinding "$name" --clusterrole="$name" --serviceaccount="$namespace:default"
    ours create role reader --verb=get --resource=pods
    ours create rolebinding reader --role=reader --serviceaccount="$namespace:default"
    kube apply -f - <<YAML
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: $name}
provisioner: example.com/none
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: $name}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: $name, hostPath: {path: /none}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim, namespace: $namespace}
spec: {accessModes: [ReadWriteOnce], storageClassName: $name, resources: {requests: {storage: 1Gi}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: $name}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [podtemplates]}]}
  validations: [{expression: "true"}]
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: $name}
handler: none
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: $name}
spec: {priorityLevelConfiguration: {name: exempt}, matchingPrecedence: 9000}
---
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: $name}
spec: {request: $request, signerName: example.com/none, usages: [client auth]}
YAML
    kube certificate approve "$name"
    ours wait --for=jsonpath='{.status.phase}'=Bound persistentvolumeclaim/claim --timeout=$patience
    ours delete persistentvolumeclaim claim
    kube delete persistentvolume,storageclass,priorityclass,runtimeclass,flowschema,certificatesigningrequest "$name"
    kube delete validatingadmissionpolicy,clusterrole,clusterrolebinding "$name"
}

aggregated_apis() {
    kube apply -f - <<YAML
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.round-$round.example.org}
spec:
  group: round-$round.example.org
  version: v1
  groupPriorityMinimum: 1
  versionPriority: 1
  insecureSkipTLSVerify: true
  service: {name: web, namespace: $namespace}
YAML
    kube get apiservices >/dev/null
    kube delete apiservice "v1.round-$round.example.org"
}

events() {
    objects 40 "{apiVersion: v1, kind: Event, metadata: {name: event-N}, type: Normal, reason: Told,
  involvedObject: {kind: Pod, name: pod-N, namespace: $namespace}}" | ours create -f - >/dev/null
    ours patch event event-1 --type=merge --patch='{"count":2}'
    ours get event event-1 >/dev/null
    ours get events --chunk-size=10 >/dev/null
    kube get events --all-namespaces --chunk-size=20 >/dev/null
    raw "/api/v1/namespaces/$namespace/events"
    raw "/api/v1/events"
    raw "/apis/events.k8s.io/v1/events?limit=3"
    ours delete event event-1
    raw "/api/v1/namespaces/$namespace/events?timeoutSeconds=3&watch=1"
    raw "/api/v1/events?timeoutSeconds=3&watch=1"
}

drain_a_node() {
    local node
    node=$(kube get nodes -o jsonpath="{.items[$((round % $(kube get nodes -o name | wc -l)))].metadata.name}")
    kube cordon "$node"
    kube drain "$node" --ignore-daemonsets --delete-emptydir-data --force --timeout=$patience
    kube uncordon "$node"
    kube taint node "$node" "round=$round:PreferNoSchedule"
    kube taint node "$node" round-
    kube label node "$node" "round=$round" --overwrite
}

watches() {
    local -a watchers=()
    local path
    for path in "/api/v1/namespaces/$namespace/pods" /api/v1/configmaps /apis/apps/v1/deployments; do
        raw "$path?watch=1&timeoutSeconds=5" &
        watchers+=($!)
    done
    raw "/api/v1/pods?watch=1&timeoutSeconds=5&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan" &
    watchers+=($!)
    ours create configmap seen
    ours delete configmap seen
    wait "${watchers[@]}"
}

pods() {
    objects 6 '{apiVersion: v1, kind: Pod, metadata: {name: bare-N, labels: {of: pods}}, spec: {containers: [{name: c, image: registry.example/c}]}}' |
        ours create -f -
    ours wait --for=condition=Ready pod --selector=of=pods --timeout=$patience
    ours get pod bare-1 -o json >/dev/null
    ours delete pod bare-1 --grace-period=0 --force
    # A delete of a collection, and one with a precondition that does not hold.
    ours delete pods --selector=of=pods --timeout=$patience
}

every_resource_listed() {
    local resource
    for resource in $(kube api-resources --verbs=list --namespaced=false -o name) $(kube api-resources --verbs=list --namespaced -o name); do
        kube get "$resource" --all-namespaces --chunk-size=3 -o name >/dev/null
    done
    raw /metrics
    raw /healthz
    raw /readyz/etcd
    raw /livez/etcd
}

namespace_deleted() { kube delete namespace "$namespace" --timeout=$patience; }

request=$(openssl req -new -newkey rsa:2048 -nodes -keyout /dev/null -subj /CN=none 2>/dev/null | base64 | tr -d '\n')
parts=(
    namespace_with_quota config_maps_in_pages secrets_and_service_accounts every_way_to_write deployment_and_rollouts
    other_workloads jobs custom_resources services_and_network cluster_wide_objects aggregated_apis pods events watches
    drain_a_node every_resource_listed namespace_deleted
)
until ((SECONDS >= end)); do
    round=$((round + 1))
    namespace=round-$round
    for name in "${parts[@]}"; do
        # The last round need not be whole, the first must be.
        ((round == 1 || SECONDS < end)) || break
        part "$name"
    done
    # Rounds that are far apart leave the cluster time for what it does by itself.
    for ((pause = 0; pause < 30 && SECONDS < end; pause++)); do sleep 1; done
done
printf '%d parts ran, %d failed%s\n' "$ran" "${#failed[@]}" "${failed[*]+: ${failed[*]}}"
((${#failed[@]} == 0))
