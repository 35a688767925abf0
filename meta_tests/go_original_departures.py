"""Where this suite departs from the Go original on purpose: the one table, each row with its reason and an example.

A departure of *input* lies in how a dump is read: ``as_original`` rewrites a dump so that the original reads of it what
the suite reads of the dump as it is. A departure of *output* lies in what is reported: ``as_original`` turns the
suite's figures into the original's. A *refusal* is a dump that the suite does not judge and the original does.

Neither order of the calls nor of the leases is compared: the original's is random.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from meta_tests import builder
from meta_tests.go_original_run import COLUMNS, EXPECTED_METHODS, LEASE_GRANT, Figures, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from etcd_coverage.judging.usage import Usage

JSON = dict[str, Any]

RANGE_STREAM = "etcdserverpb.KV/RangeStream"
NEW_KEY = "New key pattern detected: "


def written(dump: JSON) -> bytes:
    """Return the dump as Jaeger writes it."""
    return json.dumps(dump).encode()


class InputDeparture(NamedTuple):
    """The original reads a dump otherwise: it ``stops`` (the start of its panic or refusal), or counts otherwise."""

    id: str
    reason: str
    example: JSON
    as_original: Callable[[JSON], JSON] = lambda dump: dump
    stops: str = ""
    write: Callable[[JSON], bytes] = written


class OutputDeparture(NamedTuple):
    """The original reports otherwise."""

    id: str
    reason: str
    example: JSON
    as_original: Callable[[Figures, Usage], Figures]


class Refusal(NamedTuple):
    """The suite refuses with an error that holds ``error``; the original judges."""

    id: str
    reason: str
    example: JSON
    error: str


def spans_of(dump: JSON) -> Iterator[JSON]:
    """Yield the spans of a dump, in the spellings that `tests.mutants` makes."""
    for resource in dump["result"].get("resourceSpans") or []:
        for scope in get(resource, "scopeSpans") or []:
            yield from scope.get("spans") or []


def get(message: JSON, name: str) -> Any:
    """Return a field in either of its spellings; None if it is absent."""
    return message.get(name, message.get(snake(name)))


def put(message: JSON, name: str, value: object) -> None:
    """Set a field in the spelling that it has."""
    message[snake(name) if snake(name) in message else name] = value


def snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def _copy(dump: JSON) -> JSON:
    copy: JSON = json.loads(json.dumps(dump))
    return copy


def _without_unknown_fields(dump: JSON) -> JSON:
    def known(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: known(inner) for name, inner in value.items() if not name.startswith("unknown")}
        return [known(inner) for inner in value] if isinstance(value, list) else value

    found: JSON = known(dump)
    return found


_READ = ("traceId", "spanId", "parentSpanId", "name", "kind", "attributes", "events", "status")


def _only_what_is_read(dump: JSON) -> JSON:
    found = _copy(dump)
    for span in spans_of(found):
        for name in span.keys() - {*_READ, *map(snake, _READ)}:
            del span[name]
        if span.get("events"):
            span["events"] = [{"name": event.get("name")} for event in span["events"]]
    return found


def _lower_case_ids(dump: JSON) -> JSON:
    found = _copy(dump)
    for span in spans_of(found):
        for name in ("traceId", "spanId", "parentSpanId"):
            value = get(span, name)
            if value and re.fullmatch("[0-9a-fA-F]{16}|[0-9a-fA-F]{32}", value):
                put(span, name, value.lower())
    return found


def _no_parent_of_zeros(dump: JSON) -> JSON:
    found = _copy(dump)
    for span in spans_of(found):
        if not (get(span, "parentSpanId") or "").strip("0"):
            put(span, "parentSpanId", "")
    return found


def _ids_unique_in_dump(dump: JSON) -> JSON:
    found = _copy(dump)
    for span in spans_of(found):
        trace = get(span, "traceId") or ""
        for name in ("spanId", "parentSpanId"):
            if value := get(span, name):
                put(span, name, hashlib.sha256(f"{trace} {value}".encode()).hexdigest()[:16])
        if trace:
            put(span, "traceId", hashlib.sha256(trace.encode()).hexdigest()[:32])
    return found


def _without_cycles(dump: JSON) -> JSON:
    """Cut each cycle of parents that holds no contract event where no call is lost: above a gRPC span, if it has one."""
    found = _copy(dump)
    by_id = {(get(span, "traceId"), get(span, "spanId")): span for span in spans_of(found)}
    ended: set[int] = set()
    for start in by_id.values():
        path: list[JSON] = []
        span: JSON | None = start
        while span is not None and id(span) not in ended:
            ended.add(id(span))
            path.append(span)
            span = by_id.get((get(span, "traceId"), get(span, "parentSpanId")))
        on_path = [id(step) for step in path]
        if span is None or id(span) not in on_path:
            continue
        cycle = path[on_path.index(id(span)) :]
        names = [event.get("name") or "" for step in cycle for event in step.get("events") or []]
        if not any(name.startswith("contract.") for name in names):
            put(next(filter(_is_grpc, cycle), cycle[0]), "parentSpanId", "")
    return found


def _is_grpc(span: JSON) -> bool:
    return (span.get("name") or "").startswith("etcdserverpb.") and span.get("kind") in (2, "SPAN_KIND_SERVER")


_ONE_SEGMENT = re.compile(r"/registry/*(services|[^/]*\.[^/]*)/*")
_DEEPER = "/instead/of/a/panic"


def _deeper_keys(dump: JSON) -> JSON:
    """Give a key on which the original panics segments enough to be invalid without."""
    found = _copy(dump)
    for span in spans_of(found):
        for pair in span.get("attributes") or []:
            key = (pair.get("value") or {}).get("stringValue")
            if isinstance(key, str) and _ONE_SEGMENT.fullmatch(key):
                pair["value"]["stringValue"] = key + _DEEPER
    return found


def as_original_prints(key: str) -> str:
    """Return a key without pattern, escaped, as the original prints it: without its /registry."""
    if _ONE_SEGMENT.fullmatch(key):
        key += _DEEPER
    return key.removeprefix("/registry")


INPUT = (
    InputDeparture(
        id="gzip",
        reason="dumps are kept packed",
        example=builder.etcd(builder.complete()),
        write=lambda dump: gzip.compress(written(dump)),
        stops="unmarshal testdata",
    ),
    InputDeparture(
        id="byte-order-mark",
        reason="editors and Windows tools write one",
        example=builder.etcd(builder.complete()),
        write=lambda dump: codecs.BOM_UTF8 + written(dump),
        stops="unmarshal testdata",
    ),
    InputDeparture(
        id="unknown-fields",
        reason="OTLP demands of a reader that it ignores them",
        example=builder.etcd(builder.complete(), [builder.span("f" * 16, unknownField={"unknownInner": [1]})]),
        as_original=_without_unknown_fields,
        stops="unmarshal testdata",
    ),
    InputDeparture(
        id="values-that-nobody-reads",
        reason="they cannot change a result, and reading them would take most of the time",
        example=builder.etcd(
            builder.complete(),
            [builder.span("f" * 16, startTimeUnixNano="soon", links=[{"traceId": "?"}], droppedLinksCount="few")],
        ),
        as_original=_only_what_is_read,
        stops="unmarshal testdata",
    ),
    InputDeparture(
        id="upper-case-ids",
        reason="OTLP's ids are hex without regard to case; the original reads them as base64",
        example=builder.etcd(
            [
                builder.span("abcdef0000000001", name=builder.RANGE, kind=2),
                builder.span("abcdef0000000002", "ABCDEF0000000001", attributes=builder.GET),
            ]
        ),
        as_original=_lower_case_ids,
    ),
    InputDeparture(
        id="parent-of-zeros",
        reason="an id of zeros is none, so such a span is a root",
        example=builder.etcd(
            [
                builder.span("0" * 16, name=builder.RANGE, kind=2),
                builder.span("00000000000000bb", "0" * 16, attributes=builder.GET),
            ]
        ),
        as_original=_no_parent_of_zeros,
    ),
    InputDeparture(
        id="ids-by-trace",
        reason="span ids are unique only within a trace",
        example=builder.etcd(
            builder.call(1, builder.RANGE, builder.GET),
            [span | {"traceId": "f" * 32} for span in builder.call(1, builder.TXN, builder.PUT)],
        ),
        as_original=_ids_unique_in_dump,
    ),
    InputDeparture(
        id="ids-of-any-text",
        reason="ids are only ever compared; the original decodes base64",
        example=builder.etcd(
            [
                builder.span("server", name=builder.RANGE, kind=2),
                builder.span("the call", "server", attributes=builder.GET),
            ]
        ),
        as_original=_ids_unique_in_dump,
        stops="unmarshal testdata",
    ),
    InputDeparture(
        id="cycle-of-parents",
        reason="the walk to a contract event ends in a cycle; the original never returns",
        example=builder.etcd(
            [
                builder.span("00000000000000aa", "00000000000000bb", name=builder.RANGE, kind=2),
                builder.span("00000000000000bb", "00000000000000aa", attributes=builder.GET),
            ]
        ),
        as_original=_without_cycles,
        stops="does not end",
    ),
    InputDeparture(
        id="resource-without-name",
        reason="/registry/services and /registry/example.com are invalid keys; the original panics",
        example=builder.etcd(
            builder.call(1, builder.RANGE, builder.GET | {"range_begin": "/registry/services"}),
            builder.call(2, builder.RANGE, builder.GET | {"range_begin": "/registry/example.com/"}),
        ),
        as_original=_deeper_keys,
        stops="panic: runtime error: slice bounds out of range",
    ),
)
"""In an order in which the rewritings can follow one another."""


def _range_stream_unknown(figures: Figures, usage: Usage) -> Figures:
    verdicts = {method: passed for method, passed in figures.verdicts.items() if method != RANGE_STREAM}
    unexpected = set(figures.unexpected)
    if RANGE_STREAM in usage.calls:
        verdicts[EXPECTED_METHODS] = False
        unexpected.add(f"unexpected {usage.calls[RANGE_STREAM]} calls to method: {RANGE_STREAM}")
    return replace(
        figures,
        verdicts=verdicts,
        unexpected=unexpected,
        not_called={message for message in figures.not_called if RANGE_STREAM not in message},
        tables={method: table for method, table in figures.tables.items() if method != RANGE_STREAM},
        problems={method: number for method, number in figures.problems.items() if method != RANGE_STREAM},
    )


def _server_spans_alone(figures: Figures, usage: Usage) -> Figures:
    found = replace(figures, verdicts=dict(figures.verdicts), tables=dict(figures.tables))
    found.not_called = set()
    for message in figures.not_called:
        method = message.split('"')[1]
        if method in usage.calls:
            found.verdicts[method] = True
            if method in COLUMNS:
                found.tables[method] = Table(set_args=dict.fromkeys(COLUMNS[method], 0))
        else:
            found.not_called.add(message)
    if LEASE_GRANT in usage.calls and found.leases is None:
        found.leases = {}
    return found


def unknown_keys(usage: Usage, method: str) -> set[str]:
    """Return the keys of a gRPC method that the suite reported, escaped."""
    return {
        finding.message.removeprefix(NEW_KEY)
        for finding in usage.findings
        if finding.grpc_method == method and finding.message.startswith(NEW_KEY)
    }


def _keys_cut(figures: Figures, usage: Usage) -> Figures:
    tables = {}
    for method, table in figures.tables.items():
        unknown = unknown_keys(usage, method)
        counts: dict[tuple[str, str, tuple[str, ...]], list[int]] = {}
        for row in (row for row in usage.rows if row.grpc_method == method):
            key = as_original_prints(row.key_pattern) if row.key_pattern in unknown else row.key_pattern
            # /registry/a/b/c/d and /a/b/c/d are one row there.
            count = counts.setdefault((row.call_pattern, key, row.args), [0, 0])
            count[0] += row.contract_calls
            count[1] += row.calls
        tables[method] = replace(
            table,
            rows={
                key: (percent(contract, calls), calls, percent(calls, table.calls))
                for key, (contract, calls) in counts.items()
            },
        )
    return replace(figures, tables=tables)


def _one_example_of_a_bucket(figures: Figures, usage: Usage) -> Figures:
    return replace(
        figures,
        problems={
            method: len(
                {
                    row.args
                    for row in usage.rows
                    if row.grpc_method == method
                    and (not row.call_pattern or row.key_pattern in unknown_keys(usage, method))
                }
            )
            for method in figures.problems
        },
    )


def _any_invalid_key_of_a_lease(figures: Figures, usage: Usage) -> Figures:  # noqa: ARG001
    found = replace(figures, lease_problems=type(figures.lease_problems)())
    for message, number in figures.lease_problems.items():
        found.lease_problems[lease_problem(message)] += number
    return found


def lease_problem(message: str) -> str:
    """Return the message with "..." for an invalid key, of which a lease may have several."""
    named = ("no pattern found", "multiple key patterns")
    return message if not message.startswith(NEW_KEY) or message.endswith(named) else f"{NEW_KEY}..."


def _sums_of_64_bits(figures: Figures, usage: Usage) -> Figures:
    if figures.leases is None:
        return figures
    leases = dict(figures.leases)
    for lease in usage.leases:
        uses, _, calls, share = leases[lease.key_pattern]
        ttl_seconds = (lease.ttl_seconds + 2**63) % 2**64 - 2**63
        leases[lease.key_pattern] = (uses, average(ttl_seconds, calls), calls, share)
    return replace(figures, leases=leases)


def _two_warnings(figures: Figures, usage: Usage) -> Figures:  # noqa: ARG001
    known = re.compile(r"no records of traces from the apiserver|skipped \d+ spans without traces in apiserver")
    return replace(figures, warnings=[line for line in figures.warnings if known.fullmatch(line)])


OUTPUT = (
    OutputDeparture(
        id="range-stream",
        reason="no release of the original knows KV/RangeStream yet, which Kubernetes calls from 1.37 on",
        example=builder.etcd(builder.complete()),
        as_original=_range_stream_unknown,
    ),
    OutputDeparture(
        id="server-spans-alone",
        reason="a method whose calls were all lost was not seen called; the original passes it",
        example=builder.etcd([builder.span("00000000000000aa", name=builder.RANGE, kind=2)]),
        as_original=_server_spans_alone,
    ),
    OutputDeparture(
        id="whole-keys",
        reason="a key without pattern is shown whole, as it can be searched for",
        example=builder.etcd(
            builder.call(1, builder.RANGE, builder.GET | {"range_begin": "/registry/a/b/c/d"}),
            builder.call(2, builder.RANGE, builder.GET | {"range_begin": "/a/b/c/d"}),
        ),
        as_original=_keys_cut,
    ),
    OutputDeparture(
        id="every-finding",
        reason="each unknown row is reported, in order; the original prints one arbitrary example of those with equal args",
        example=builder.etcd(
            builder.call(1, builder.RANGE, builder.GET | {"range_begin": "one"}),
            builder.call(2, builder.RANGE, builder.GET | {"range_begin": "two"}),
        ),
        as_original=_one_example_of_a_bucket,
    ),
    OutputDeparture(
        id="first-invalid-key-of-a-lease",
        reason="of several the first counts, so that two runs report the same; the original takes any",
        # So many that the original does not take the first of each lease by chance.
        example=builder.etcd(
            *(builder.call(lease, builder.LEASE_GRANT, {"id": lease, "ttl": 15}) for lease in range(1, 11)),
            *(
                builder.call(
                    100 * lease + number,
                    builder.TXN,
                    builder.PUT | {"success_first_lease": lease, "success_first_key": f"{lease}-{number}"},
                )
                for lease in range(1, 11)
                for number in range(20)
            ),
        ),
        as_original=_any_invalid_key_of_a_lease,
    ),
    OutputDeparture(
        id="sums-of-any-size",
        reason="a sum of TTLs is exact; the original's wraps at 64 bits",
        example=builder.etcd(
            *(
                span
                for lease in (7, 8)
                for span in (
                    builder.call(lease, builder.LEASE_GRANT, {"id": lease, "ttl": 2**62 + 2**61}),
                    builder.call(lease + 10, builder.TXN, builder.PUT | {"success_first_lease": lease}),
                )
            )
        ),
        as_original=_sums_of_64_bits,
    ),
    OutputDeparture(
        id="more-warnings",
        reason="what makes a dump doubtful is reported: spans with two contents, downloads that were cut",
        example=builder.etcd(
            builder.call(1, builder.RANGE, builder.GET), builder.call(1, builder.RANGE, builder.GET | {"limit": 2})
        ),
        as_original=_two_warnings,
    ),
)

REFUSALS = (
    Refusal(
        id="no-etcd-spans",
        reason="one error, not one failure for each method",
        example=builder.etcd([builder.span("00000000000000aa")]),
        error="has no etcd gRPC spans",
    ),
    Refusal(
        id="no-spans",
        reason="one error, not one failure for each method",
        example=builder.dump(),
        error="has no spans",
    ),
    Refusal(
        id="no-trace-id",
        reason="OTLP demands one, and spans are told apart by it",
        example=builder.etcd([builder.span("00000000000000aa", name=builder.RANGE, kind=2) | {"traceId": ""}]),
        error="has a span without a trace id",
    ),
)


def percent(part: int, whole: int) -> str:
    """Return the percentage as the original prints it."""
    return f"{part * 100 / whole:.2f}%"


def average(total: int, number: int) -> str:
    """Return the average as the original prints it."""
    return f"{float(total) / number:.1f}"


def figures_of(usage: Usage) -> Figures:
    """Return what the original would print of the suite's usage if nothing departed."""
    total = sum(usage.calls.values())
    found = Figures(
        calls={method: (calls, percent(calls, total)) for method, calls in usage.calls.items()},
        total_calls=total,
        warnings=usage.quality.warnings(),
    )
    found.verdicts[EXPECTED_METHODS] = True
    found.verdicts |= dict.fromkeys([*COLUMNS, RANGE_STREAM, LEASE_GRANT], True)
    for finding in usage.findings:
        match finding.id:
            case "unexpected-method":
                found.unexpected.add(finding.message)
                found.verdicts[EXPECTED_METHODS] = False
                continue
            case "method-not-called":
                found.not_called.add(finding.message)
            case "call-not-recorded":
                found.not_called.add(f'expected "{finding.grpc_method}" method to be called at least once')
            case _ if finding.grpc_method == LEASE_GRANT:
                found.lease_problems[finding.message] += finding.count
            case _:
                found.problems[finding.grpc_method] = found.problems.get(finding.grpc_method, 0) + 1
        found.verdicts[finding.grpc_method] = False
    for method in dict.fromkeys(row.grpc_method for row in usage.rows):
        rows = [row for row in usage.rows if row.grpc_method == method]
        calls = sum(row.calls for row in rows)
        found.tables[method] = Table(
            rows={
                (row.call_pattern, row.key_pattern, row.args): (
                    percent(row.contract_calls, row.calls),
                    row.calls,
                    percent(row.calls, calls),
                )
                for row in rows
            },
            set_args={
                arg: sum(row.calls for row in rows if arg in row.args)
                for arg in COLUMNS.get(method, ("limit", "rangeEnd", "rev"))
            },
            contract_calls=sum(row.contract_calls for row in rows),
            calls=calls,
        )
    if not any(LEASE_GRANT in message for message in found.not_called):
        found.total_leases = sum(lease.calls for lease in usage.leases)
        found.leases = {
            lease.key_pattern: (
                average(lease.uses, lease.calls),
                average(lease.ttl_seconds, lease.calls),
                lease.calls,
                percent(lease.calls, found.total_leases),
            )
            for lease in usage.leases
        }
    return found


def as_original_reads(dump: JSON) -> JSON:
    """Return the dump with every departure of input rewritten."""
    for departure in INPUT:
        dump = departure.as_original(dump)
    return dump


def as_original_reports(usage: Usage, but: str = "") -> Figures:
    """Return the suite's figures with every departure of output, but one, turned into the original's."""
    figures = figures_of(usage)
    for departure in OUTPUT:
        if departure.id != but:
            figures = departure.as_original(figures, usage)
    return figures
