"""Usages to report on, written by hand: one that is as expected, one that is hostile."""

from __future__ import annotations

from msgspec.structs import replace

from etcd_coverage.comparing.compare import compare
from etcd_coverage.judging.usage import Example, Finding, Lease, Origin, Quality, Row, Usage
from etcd_coverage.reports.view import Report
from meta_tests.builder import COMPACT, LEASE_GRANT, RANGE, TXN

NAME = "/registry/{resource}/{namespace}/{name}"
LIST = "/registry/{resource}/"
EXAMPLE = Example(trace_id="0123456789abcdef0123456789abcdef", span_id="00000008000000bb")

HOSTILE = {
    text: text
    for text in (
        "<script>document.title = 'broken into'</script>",
        "</script></style></title><img src=x onerror=\"document.title = 'broken into'\">",
        "\"'` onmouseover='alert(1)'",
        "| pipe || `code` |",
        "back\\|slash\\",
        "{{ 7 * 7 }}{% endfor %}",
        "[link](javascript:alert(1)) ![image](http://192.0.2.1/x.png) **bold** @someone #1 http://192.0.2.1/",
        "&lt;b&gt; &#96; &amp;",
        "  spaces  ",
    )
} | {
    "\x1b[31mred\x1b[0m": "\\x1b[31mred\\x1b[0m",
    "nul\x00nul": "nul\\x00nul",
    "\u202egnp.exe": "\\u202egnp.exe",
    "two\nlines\r\n\n# heading": "two\\x0alines\\x0d\\x0a\\x0a# heading",
    "k" * 10_000: "k" * 141 + "...(9718 more)..." + "k" * 141,
}
"""Texts as a dump may hold them, and how a message shows them."""


def row_of(method: str, call_pattern: str, key: str, *args: str, calls: int = 1, contract_calls: int = 0) -> Row:
    return Row(
        grpc_method=method,
        call_pattern=call_pattern,
        key_pattern=key,
        args=args,
        calls=calls,
        contract_calls=contract_calls,
        known_key=method != RANGE or key.startswith("/registry/"),
        example=EXAMPLE,
    )


def origin_of(component: str, verb: str, resource: str, calls: int, contract_calls: int = 0) -> Origin:
    return Origin(
        component=component, role="", verb=verb, resource=resource, calls=calls, contract_calls=contract_calls
    )


EXPECTED = Usage(
    calls={COMPACT: 1, RANGE: 1512, LEASE_GRANT: 2, TXN: 30},
    rows=[
        replace(
            row_of(RANGE, "List", LIST, "limit", "rangeEnd", calls=12),
            origins=[origin_of("kubectl", "LIST", "events", 12)],
        ),
        replace(
            row_of(RANGE, "Get", NAME, "limit", calls=1500, contract_calls=750),
            origins=[
                origin_of("kubectl", "GET", "pods", 1000, 700),
                *(origin_of("kubelet", "GET", f"resource{n}", 45, 5) for n in range(10)),
                origin_of("kwok", "PATCH", "pods", 30),
                origin_of("kubectl", "LIST", "pods", 20),
            ],
        ),
        row_of(TXN, "OptimisticPut", NAME, calls=30, contract_calls=30),
        row_of(COMPACT, "Compact", "", "rev"),
    ],
    leases=[Lease(key_pattern="/registry/masterleases/{name}", uses=5, ttl_seconds=30, calls=2)],
    quality=Quality(spans=3100, traces=1550, apiserver_traces=1550),
)

SUBJECT = Usage(
    calls={RANGE: 9},
    rows=[
        row_of(RANGE, "", LIST, calls=2),
        row_of(RANGE, "Get", NAME, "limit", calls=4),
        row_of(RANGE, "Count", LIST, "rangeEnd", "countOnly", calls=3),
    ],
    findings=[
        Finding(
            id="new-call-pattern", grpc_method=RANGE, message="New call pattern detected: a", count=2, example=EXAMPLE
        ),
        Finding(id="method-not-called", grpc_method=TXN, message='expected "b" method', count=0),
    ],
    quality=Quality(spans=20, traces=9),
)


def compared() -> Report:
    """Return a report of both, the first being the reference of the second."""
    return Report(
        usages={"subject.json": SUBJECT, "expected.json": EXPECTED},
        releases={"expected.json": "1.37"},
        reference="expected.json",
        comparisons={"subject.json": compare(EXPECTED, SUBJECT)},
        comparison_notes={"subject.json": ["something is left out"]},
        gate_failures={"subject.json": ["--min-coverage=90: 97% is too little"]},
        jaeger_url="http://localhost:16686",
    )


def hostile() -> Report:
    """Return a report in which every text of a dump is hostile, and not escaped as `classify` would have it."""
    examples = [Example(trace_id=text, span_id=text) for text in HOSTILE]
    origins = {
        text: Origin(component=text, role=text, verb=text, resource=text, calls=1, contract_calls=0) for text in HOSTILE
    }
    usage = Usage(
        calls=dict.fromkeys(HOSTILE, 1),
        rows=[
            # Without any call through the contract there is no list of those outside.
            row_of(COMPACT, "Compact", "", contract_calls=1),
            replace(row_of(RANGE, "List", LIST, calls=len(HOSTILE)), origins=list(origins.values())),
            *(
                replace(row_of(method, text, text, text), origins=[origins[text]])
                for text in HOSTILE
                for method in (RANGE, text)
            ),
        ],
        leases=[Lease(key_pattern=text, uses=1, ttl_seconds=1, calls=1) for text in HOSTILE],
        findings=[
            Finding(id="new-key-pattern", grpc_method=one.span_id, message=one.span_id, count=1, example=one)
            for one in examples
        ],
        quality=Quality(conflicting_spans=examples),
    )
    usages = {"a": Usage(error="|".join(HOSTILE)), **dict.fromkeys(HOSTILE, Usage()), "b": usage}
    comparisons = {"b": compare(EXPECTED, usage)}
    return Report(
        usages=usages,
        reference="|".join(HOSTILE),
        comparisons=comparisons,
        comparison_notes={"b": list(HOSTILE)},
        gate_failures={"b": list(HOSTILE)},
        jaeger_url="http://localhost:16686/'\"<b>",
    )
