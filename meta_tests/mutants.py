"""Dumps mutated at random: samples of real ones, changed where a reader could go wrong. A seed makes always the same."""

from __future__ import annotations

import json
from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

JSON = dict[str, Any]

KEY_ATTRIBUTES = ("range_begin", "compare_first_key", "key", "success_first_key")
INT_ATTRIBUTES = (
    "limit", "rev", "failure_len", "success_first_lease", "compare_len", "success_len", "start_rev", "id", "ttl",
)  # fmt: skip
BOOL_ATTRIBUTES = ("count_only", "keys_only", "read_only", "is_physical", "prev_kv", "fragment", "progress_notify")
TEXT_ATTRIBUTES = ("range_end", "success_first_type")

INTS = (0, 1, 1, 1, 2, 3, 500, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
SEGMENTS = (
    "", "pods", "services", "events", "masterleases", "health", "specs", "endpoints", "default", "example.com", "a.b",
    ".", "{name}", "web-0", "ü", "\u6f22", "a b", "x\u0000y", "\\", "\u202e", "a" * 90,
)  # fmt: skip
WHOLE_KEYS = (
    "compact_rev_key", "/registry/health", "compact_rev_key/", "/registry/health/", "/registry", "/registry/", "/", "",
    "\u0000", "key", "/other-registry", "/registryx/pods/a", "registry/pods/a", "/Registry/pods/a",
)  # fmt: skip
METHODS = (
    "KV/Range", "KV/RangeStream", "KV/Txn", "KV/Compact", "Watch/Watch", "Lease/LeaseGrant", "Maintenance/Status",
    "KV/Put", "KV/DeleteRange", "Lease/LeaseRevoke", "KV/range", "", "x\u0000",
)  # fmt: skip
EVENTS = (
    "contract.Get", "contract.OptimisticPut", "contract.", "contract", "Contract.Get", "wrong.contract", " contract.x",
    "contractWrong", "other", "",
)  # fmt: skip
KINDS = (0, 1, 2, 2, 2, 3, 4, 5, 17, None, "SPAN_KIND_SERVER", "SPAN_KIND_CLIENT", "SPAN_KIND_UNSPECIFIED", 2.0)
SERVICES = ("apiserver", "etcd", "", "Apiserver", "e2e.test")

MALFORMED_VALUES: tuple[object, ...] = (
    {"intValue": "01"}, {"intValue": " 1"}, {"intValue": "1 "}, {"intValue": "+1"}, {"intValue": ""},
    {"intValue": "0x1"}, {"intValue": "1.5"}, {"intValue": 1.5}, {"intValue": True}, {"intValue": str(2**63)},
    {"intValue": 2**63}, {"intValue": str(-(2**63) - 1)}, {"intValue": "1e999999999999999999999"},
    {"intValue": "\u0661"}, {"intValue": [1]}, {"intValue": {}}, {"intValue": "-"}, {"intValue": "1_0"},
    {"boolValue": "true"}, {"boolValue": 1}, {"boolValue": 0}, {"boolValue": ""}, {"boolValue": []},
    {"stringValue": 1}, {"stringValue": True}, {"stringValue": {}}, {"stringValue": ["x"]},
    {"doubleValue": True}, {"doubleValue": "x"}, {"doubleValue": ""}, {"doubleValue": " 1"}, {"doubleValue": "1e999"},
    {"doubleValue": {}},
    {"bytesValue": "?"}, {"bytesValue": "a"}, {"bytesValue": 1}, {"bytesValue": "YQ=\u003d="},
    {"arrayValue": []}, {"arrayValue": {"values": {}}}, {"arrayValue": {"values": [None]}},
    {"arrayValue": {"values": [{"intValue": "01"}]}}, {"arrayValue": 1}, {"kvlistValue": []},
    {"kvlistValue": {"values": [{"key": 1}]}},
    {"stringValue": "a", "intValue": "1"}, {"stringValue": "a", "string_value": "b"},
    "text", 1, True, [], [{"stringValue": "a"}],
)  # fmt: skip
"""Values of an attribute that the protobuf JSON mapping does not have."""

LEGAL_VALUES: tuple[object, ...] = (
    {"intValue": 1}, {"intValue": 1.0}, {"intValue": "1.0"}, {"intValue": "1e0"}, {"intValue": "10e-1"},
    {"intValue": "-0"}, {"intValue": 2**63 - 1}, {"intValue": str(-(2**63))}, {"int_value": "1"},
    {"stringValue": ""}, {"string_value": "/registry/pods/a"}, {"stringValue": "1"}, {"stringValue": "true"},
    {"boolValue": True}, {"boolValue": False}, {"bool_value": True},
    {"doubleValue": 1}, {"doubleValue": "1"}, {"doubleValue": 1.5}, {"doubleValue": "NaN"},
    {"doubleValue": "-Infinity"}, {"double_value": 0}, {"bytesValue": ""}, {"bytesValue": "YQ=="},
    {"bytesValue": "YQ"}, {"bytesValue": "_-8"},
    {"arrayValue": {}}, {"arrayValue": {"values": [{"intValue": "1"}, {}]}}, {"kvlistValue": {}},
    {"kvlistValue": {"values": [{"key": "a", "value": {"boolValue": True}}]}}, {"array_value": {"values": []}},
    {}, None, {"stringValue": None}, {"intValue": None}, {"stringValue": None, "intValue": "1"},
)  # fmt: skip


def service(name: object) -> JSON:
    return {"key": "service.name", "value": {"stringValue": name} if isinstance(name, str) else name}


def is_grpc(span: JSON) -> bool:
    return span.get("kind") in (2, "SPAN_KIND_SERVER") and (span.get("name") or "").startswith("etcdserverpb.")


class Mutant:
    """A dump while it is changed: every scope's list of spans, and those that are calls."""

    def __init__(self, seed: int, dump: JSON) -> None:
        self.random = Random(seed)
        self.dump = dump
        self.resources: list[JSON] = dump["result"]["resourceSpans"]
        self.lists: list[list[JSON]] = [
            scope["spans"] for resource in self.resources for scope in resource["scopeSpans"]
        ]

    def calls(self) -> list[JSON]:
        servers = {(span["traceId"], span["spanId"]) for spans in self.lists for span in spans if is_grpc(span)}
        return [
            span
            for spans in self.lists
            for span in spans
            if (span["traceId"], span.get("parentSpanId")) in servers and not is_grpc(span)
        ]

    def place(self) -> tuple[list[JSON], int]:
        """Return a list of spans and an index in it, at random."""
        spans = self.random.choice([spans for spans in self.lists if spans])
        return spans, self.random.randrange(len(spans))

    def span(self) -> JSON:
        """Return a call mostly, else any span."""
        if self.random.random() < 0.8 and (calls := self.calls()):
            return self.random.choice(calls)
        spans, index = self.place()
        return spans[index]

    def of_trace(self, trace_id: str) -> list[JSON]:
        return [span for spans in self.lists for span in spans if span["traceId"] == trace_id]

    def key(self) -> str:
        if self.random.random() < 0.25:
            return self.random.choice(WHOLE_KEYS)
        segments = self.random.choices(SEGMENTS, k=self.random.randint(1, 5))
        # The original's table cuts blanks at the ends.
        return "/registry/" + "/".join(segments)

    def attribute(self) -> JSON:
        """Return an argument with a value of its type, mostly."""
        name = self.random.choice((*KEY_ATTRIBUTES, *INT_ATTRIBUTES, *BOOL_ATTRIBUTES, *TEXT_ATTRIBUTES))
        if self.random.random() < 0.2:
            return {"key": name, "value": self.random.choice(LEGAL_VALUES)}
        value: JSON
        if name in KEY_ATTRIBUTES:
            value = {"stringValue": self.key()}
        elif name in INT_ATTRIBUTES:
            value = {"intValue": str(self.random.choice(INTS))}
        elif name in BOOL_ATTRIBUTES:
            value = {"boolValue": self.random.random() < 0.5}
        else:
            value = {"stringValue": self.random.choice(("", "put", "delete_range", "range", "/registry/pods0"))}
        return {"key": name, "value": value}


def set_attribute(mutant: Mutant) -> None:
    attributes = mutant.span().setdefault("attributes", [])
    new = mutant.attribute()
    found = [index for index, pair in enumerate(attributes) if pair.get("key") == new["key"]]
    if found:
        attributes[found[0]] = new
    else:
        attributes.append(new)


def set_key(mutant: Mutant) -> None:
    pairs = [pair for pair in mutant.span().get("attributes", []) if pair.get("key") in KEY_ATTRIBUTES]
    for pair in pairs:
        pair["value"] = {"stringValue": mutant.key()}


def retype_attribute(mutant: Mutant) -> None:
    if attributes := mutant.span().get("attributes"):
        mutant.random.choice(attributes)["value"] = mutant.random.choice(LEGAL_VALUES)


def drop_attribute(mutant: Mutant) -> None:
    if attributes := mutant.span().get("attributes"):
        del attributes[mutant.random.randrange(len(attributes))]


def repeat_attribute(mutant: Mutant) -> None:
    attributes = mutant.span().setdefault("attributes", [])
    attributes.insert(mutant.random.randint(0, len(attributes)), mutant.attribute())


def add_event(mutant: Mutant) -> None:
    span = mutant.span()
    # Mostly on an ancestor.
    while mutant.random.random() < 0.7:
        parents = [one for one in mutant.of_trace(span["traceId"]) if one["spanId"] == span.get("parentSpanId")]
        if not parents:
            break
        span = parents[-1]
    events = span.setdefault("events", [])
    events.insert(mutant.random.randint(0, len(events)), {"name": mutant.random.choice(EVENTS), "timeUnixNano": "1"})


def drop_events(mutant: Mutant) -> None:
    for span in mutant.of_trace(mutant.span()["traceId"]):
        span.pop("events", None)


def drop_span(mutant: Mutant) -> None:
    spans, index = mutant.place()
    if sum(map(len, mutant.lists)) > 1:
        del spans[index]


def repeat_span(mutant: Mutant) -> None:
    spans, index = mutant.place()
    mutant.random.choice(mutant.lists).append(copy_of(spans[index]))


def repeat_span_with_other_content(mutant: Mutant) -> None:
    repeated = copy_of(mutant.span())
    repeated["attributes"] = [mutant.attribute() for _ in range(3)]
    if mutant.random.random() < 0.3:
        repeated["kind"] = mutant.random.choice(KINDS)
    spans = mutant.random.choice(mutant.lists)
    spans.insert(mutant.random.randint(0, len(spans)), repeated)


def repeat_trace(mutant: Mutant) -> None:
    """Copy a trace under another trace id, its span ids the same."""
    trace_id = mutant.span()["traceId"]
    new = f"{mutant.random.getrandbits(128):032x}"
    for spans in mutant.lists:
        spans += [copy_of(span) | {"traceId": new} for span in spans if span["traceId"] == trace_id]


def rename_span(mutant: Mutant) -> None:
    spans, index = mutant.place()
    prefix = mutant.random.choice(
        ("etcdserverpb.", "etcdserverpb.", "etcdserverpb.", "etcdserverpb", "Etcdserverpb.", "")
    )
    spans[index]["name"] = prefix + mutant.random.choice(METHODS)


def rename_method(mutant: Mutant) -> None:
    """Give the server spans of one method another name, which makes all its calls those of another method."""
    servers = [span for spans in mutant.lists for span in spans if is_grpc(span)]
    if servers:
        old, new = mutant.random.choice(servers)["name"], "etcdserverpb." + mutant.random.choice(METHODS)
        for span in servers:
            if span["name"] == old:
                span["name"] = new


def change_kind(mutant: Mutant) -> None:
    spans, index = mutant.place()
    spans[index]["kind"] = mutant.random.choice(KINDS)


def change_parent(mutant: Mutant) -> None:
    span = mutant.span()
    in_trace = mutant.of_trace(span["traceId"])
    spans, index = mutant.place()
    children = [one for one in in_trace if one.get("parentSpanId") == span["spanId"]] or in_trace
    span["parentSpanId"] = mutant.random.choice(
        (
            mutant.random.choice(in_trace)["spanId"],
            mutant.random.choice(children)["spanId"],
            spans[index]["spanId"],
            span["spanId"],
            f"{mutant.random.getrandbits(64):016x}",
            "0" * 16,
            "",
            None,
        )
    )


def change_parent_of_server(mutant: Mutant) -> None:
    """Let a server span be below its own call, or below the call of another."""
    call = mutant.span()
    servers = [span for span in mutant.of_trace(call["traceId"]) if is_grpc(span)]
    if servers:
        mutant.random.choice(servers)["parentSpanId"] = call["spanId"]


def change_span_id(mutant: Mutant) -> None:
    span = mutant.span()
    span["spanId"] = mutant.random.choice(mutant.of_trace(span["traceId"]))["spanId"]


def change_trace_id(mutant: Mutant) -> None:
    spans, index = mutant.place()
    mutant.span()["traceId"] = spans[index]["traceId"]


def drop_id(mutant: Mutant) -> None:
    if mutant.random.random() < 0.15:
        spans, index = mutant.place()
        spans[index][mutant.random.choice(("spanId", "spanId", "traceId"))] = ""


def share_lease(mutant: Mutant) -> None:
    """Put several transactions under the lease of a grant."""
    values = [call.setdefault("attributes", []) for call in mutant.calls()]
    grants = [pairs for pairs in values if any(pair.get("key") == "ttl" for pair in pairs)]
    transactions = [pairs for pairs in values if any(pair.get("key") == "compare_first_key" for pair in pairs)]
    if grants and transactions:
        lease = {"intValue": str(mutant.random.choice(INTS))}
        mutant.random.choice(grants).insert(0, {"key": "id", "value": lease})
        for pairs in mutant.random.choices(transactions, k=mutant.random.randint(1, 4)):
            pairs.insert(0, {"key": "success_first_lease", "value": lease})
            if mutant.random.random() < 0.3:
                pairs[:] = [pair for pair in pairs if pair.get("key") != "success_first_key"]


def move_span(mutant: Mutant) -> None:
    spans, index = mutant.place()
    mutant.random.choice(mutant.lists).append(spans.pop(index))


def shuffle(mutant: Mutant) -> None:
    mutant.random.shuffle(mutant.resources)
    mutant.random.shuffle(mutant.place()[0])


def change_service(mutant: Mutant) -> None:
    attributes = mutant.random.choice(mutant.resources)["resource"]["attributes"]
    if mutant.random.random() < 0.03:
        attributes[:] = [pair for pair in attributes if pair["key"] != "service.name"]
    elif mutant.random.random() < 0.1:
        attributes[:] = [service(mutant.random.choice((None, {}, {"intValue": "1"}, {"boolValue": True})))]
    else:
        attributes.insert(mutant.random.randint(0, len(attributes)), service(mutant.random.choice(SERVICES)))


def drop_apiserver(mutant: Mutant) -> None:
    for resource in mutant.resources:
        if mutant.random.random() < 0.5:
            resource["resource"]["attributes"] = [service("etcd")]


MUTATIONS: tuple[tuple[Callable[[Mutant], None], int], ...] = (
    (set_attribute, 8), (set_key, 8), (retype_attribute, 4), (drop_attribute, 3), (repeat_attribute, 3),
    (add_event, 4), (drop_events, 1), (drop_span, 3), (repeat_span, 2), (repeat_span_with_other_content, 2),
    (repeat_trace, 1), (rename_span, 2), (rename_method, 1), (change_kind, 3), (change_parent, 4),
    (change_parent_of_server, 2), (change_span_id, 1), (change_trace_id, 1), (drop_id, 1), (share_lease, 3),
    (move_span, 2), (shuffle, 1), (change_service, 1), (drop_apiserver, 1),
)  # fmt: skip


def snake_case(mutant: Mutant) -> None:
    names = {
        "traceId": "trace_id", "spanId": "span_id", "parentSpanId": "parent_span_id",
        "startTimeUnixNano": "start_time_unix_nano", "endTimeUnixNano": "end_time_unix_nano",
    }  # fmt: skip
    for span in mutant.random.choice(mutant.lists):
        for name, other in names.items():
            if name in span and mutant.random.random() < 0.7:
                span[other] = span.pop(name)


def snake_case_lists(mutant: Mutant) -> None:
    resource = mutant.random.choice(mutant.resources)
    resource["scope_spans"] = resource.pop("scopeSpans")


def nulls(mutant: Mutant) -> None:
    spans, index = mutant.place()
    for name in mutant.random.sample(("attributes", "events", "status", "kind", "links", "name", "traceState"), 3):
        spans[index].setdefault(name, None)
    mutant.resources.append({"resource": {"attributes": [service("etcd")]}, "scopeSpans": None, "schemaUrl": None})
    mutant.resources.append({"resource": {"attributes": [service("etcd")]}, "scopeSpans": [{"spans": None}, {}]})


def unknown_fields(mutant: Mutant) -> None:
    spans, index = mutant.place()
    spans[index]["unknownField"] = {"unknownInner": [None, 1]}
    mutant.random.choice(mutant.resources)["unknown"] = "x"
    for pair in spans[index].get("attributes") or []:
        pair["unknownHint"] = 1


def more_fields(mutant: Mutant) -> None:
    spans, index = mutant.place()
    spans[index] |= {
        "traceState": "a=b", "flags": 257, "droppedAttributesCount": "3", "dropped_events_count": 1,
        "links": [{"traceId": "aaaa", "spanId": "bbbb", "attributes": [{"key": "a"}]}], "droppedLinksCount": 0,
    }  # fmt: skip
    mutant.random.choice(mutant.resources)["schemaUrl"] = "https://opentelemetry.io/schemas/1.26.0"


def upper_case_ids(mutant: Mutant) -> None:
    for span in mutant.random.choice(mutant.lists):
        for name in ("traceId", "spanId", "parentSpanId"):
            if isinstance(span.get(name), str) and mutant.random.random() < 0.5:
                span[name] = span[name].upper()


def numbers(mutant: Mutant) -> None:
    for span in mutant.random.choice(mutant.lists):
        for pair in span.get("attributes") or []:
            if (
                (value := pair.get("value"))
                and isinstance(value.get("intValue"), str)
                and value["intValue"].isdecimal()
            ):
                value["intValue"] = int(value["intValue"])
        for name in ("startTimeUnixNano", "endTimeUnixNano"):
            if isinstance(span.get(name), str):
                span[name] = int(span[name])


SPELLINGS = (upper_case_ids, unknown_fields, more_fields, nulls, numbers, snake_case, snake_case_lists)
"""Other ways to write the same dump, in an order in which they can follow one another."""


def malform(mutant: Mutant) -> None:
    """Break one value that is read: of a call, its kind, its name, its ids, its events."""
    call = mutant.random.choice(mutant.calls())
    attributes = call.setdefault("attributes", [])
    match mutant.random.randrange(10):
        case 0:
            call["kind"] = mutant.random.choice(
                ("2", "SERVER", "span_kind_server", 2.5, 2**31, True, [], {}, "2.0", "")
            )
        case 1:
            call["name"] = mutant.random.choice((1, True, [], {}))
        case 2:
            call[mutant.random.choice(("traceId", "spanId", "parentSpanId"))] = mutant.random.choice((1, True, [], {}))
        case 3:
            call["events"] = mutant.random.choice(({}, "x", 1, [None], [1], ["x"], [{"name": 1}], [[]]))
        case 4:
            call["attributes"] = mutant.random.choice(
                ({}, "x", 1, [None], [1], ["x"], [{"key": 1}], [{"key": []}], [[]])
            )
        case _:
            pair = {"key": mutant.random.choice((*KEY_ATTRIBUTES, *INT_ATTRIBUTES, "other"))}
            attributes.insert(
                mutant.random.randint(0, len(attributes)), pair | {"value": mutant.random.choice(MALFORMED_VALUES)}
            )


def sample(random: Random, dump: JSON) -> JSON:
    """Return some whole traces of a dump, a few of each set of gRPC methods; nothing of it is shared with the dump."""
    methods: defaultdict[str, set[str]] = defaultdict(set)
    for resource in dump["result"]["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                methods[span["traceId"]] |= {span["name"]} if is_grpc(span) else set()
                if any(pair["key"] == "ttl" for pair in span.get("attributes", [])):
                    methods[span["traceId"]].add("ttl")
    groups: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for trace_id, names in methods.items():
        groups[tuple(sorted(names))].append(trace_id)
    chosen = {trace_id for traces in groups.values() for trace_id in random.sample(traces, min(len(traces), 5))}
    resources = []
    for resource in dump["result"]["resourceSpans"]:
        scopes = [
            scope | {"spans": [span for span in scope["spans"] if span["traceId"] in chosen]}
            for scope in resource["scopeSpans"]
        ]
        if any(scope["spans"] for scope in scopes):
            resources.append(resource | {"scopeSpans": scopes})
    return copy_of({"result": {"resourceSpans": resources}})


def mutate(seed: int, dumps: Sequence[JSON]) -> JSON:
    """Return a mutant of one of the dumps: some mutations, then perhaps other spellings."""
    random = Random(seed)
    mutant = Mutant(random.getrandbits(64), sample(random, random.choice(dumps)))
    mutations, weights = zip(*MUTATIONS, strict=True)
    for mutation in random.choices(mutations, weights, k=random.choice((1, 3, 10, 30, 60))):
        mutation(mutant)
    for spelling in SPELLINGS:
        if random.random() < 0.15:
            spelling(mutant)
    return mutant.dump


def mutate_malformed(seed: int, dumps: Sequence[JSON]) -> JSON:
    """Return a mutant with one value that the protobuf JSON mapping does not have."""
    random = Random(seed)
    mutant = Mutant(random.getrandbits(64), sample(random, random.choice(dumps)))
    malform(mutant)
    return mutant.dump


def copy_of(value: JSON) -> JSON:
    copy: JSON = json.loads(json.dumps(value))
    return copy
