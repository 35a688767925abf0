"""Receives traces by OTLP/gRPC into a dump, without a tracing backend.

    python -m etcd_coverage.receive -o testdata/run-1 --judge

The work is done in `sources.receiver`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import re
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from etcd_coverage.cli import FAILED, OK, count, report, run, size
from etcd_coverage.judging.data_quality import Limits as QualityLimits
from etcd_coverage.judging.data_quality import with_quality_findings
from etcd_coverage.judging.judge import judge
from etcd_coverage.releases import release_of
from etcd_coverage.reports.terminal import failure_text
from etcd_coverage.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

try:
    from etcd_coverage.sources.live_judge import LiveJudge
    from etcd_coverage.sources.parts import NOT_WRITABLE, Parts
    from etcd_coverage.sources.receiver import Address, Limits, ReceiveError, Receiver, Tls
    from etcd_coverage.sources.receiving import LiveLine, services
    from etcd_coverage.sources.recover import recover
    from etcd_coverage.sources.trace_requests import RequestError

    MISSING = ""
except ImportError as error:
    MISSING = error.name or str(error)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not host or not port.isascii() or not port.isdecimal() or not int(port[:6]) < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is no HOST:PORT such as 127.0.0.1:4317")
    return host, int(port)


def _release(text: str) -> str:
    if not re.fullmatch(r"\d+\.\d+", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not a release such as 1.37")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m etcd_coverage.receive",
        description="Receive traces by OTLP/gRPC into a folder, which is a dump; Ctrl-C or SIGTERM ends it.",
    )
    default = "(default: %(default)s)"
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("-o", "--output", type=Path, metavar="DIR", help="the dump: a folder, new or empty")
    what.add_argument(
        "--recover",
        type=Path,
        metavar="DIR",
        help="cut off what a receiver that was killed had not finished writing, and say how much; receives nothing",
    )
    parser.add_argument(
        "--listen",
        type=_address,
        action="append",
        metavar="HOST:PORT",
        help="port 0: a free one; may be repeated (default: 127.0.0.1:4317)",
    )
    parser.add_argument(
        "--part-size", type=size, default="64M", metavar="BYTES", help=f"size of a file, after which the next {default}"
    )
    parser.add_argument(
        "--max-message", type=size, default="64M", metavar="BYTES", help=f"largest request, unpacked {default}"
    )
    parser.add_argument("--max-connections", type=count, default=1000, metavar="N", help=f"senders at a time {default}")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate of the receiver, in PEM")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key, in PEM")
    parser.add_argument(
        "--client-ca", type=Path, metavar="FILE", help="let in only senders with a certificate of this authority"
    )
    parser.add_argument(
        "--judge",
        action="store_true",
        help="print what nobody expects within seconds of the call, once, and at the end all that the suite says",
    )
    parser.add_argument(
        "--kubernetes-version",
        type=_release,
        metavar="X.Y",
        help="which methods can be called (default: as the name of DIR says, as in kubernetes-1.36, else the newest)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, or 1 where something could not be received or written."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if bool(options.tls_cert) != bool(options.tls_key) or (options.client_ca and not options.tls_cert):
        parser.error("--tls-cert and --tls-key go together, and --client-ca with them")
    if MISSING:
        report(f"error: {MISSING} is missing: pip install 'etcd-k8s-coverage[receive]'")
        return FAILED
    try:
        return _recover(options.recover) if options.recover else _receive(options)
    except RequestError as error:
        report(f"error: {printable(str(options.recover))}: holds what no receiver wrote: {error}")
        return FAILED
    except ReceiveError as error:
        report(f"error: {error}")
        return FAILED
    except OSError as error:
        report(
            f"error: {printable(str(error.filename or options.output or options.recover))}: {error.strerror or error}"
        )
        return FAILED


def _receive(options: argparse.Namespace) -> int:
    folder = options.output
    _make_folder(folder)
    tls = Tls(options.tls_cert, options.tls_key, options.client_ca) if options.tls_cert else None
    addresses = [Address(*pair) for pair in options.listen or [("127.0.0.1", 4317)]]
    ended = threading.Event()
    receiver = Receiver(addresses, tls, Limits(options.max_message, options.max_connections), report=report)
    parts = Parts(folder, options.part_size)
    line = LiveLine(parts)
    receiver.on_request.append(lambda request, _: line.count(request))
    live = LiveJudge(report) if options.judge else None
    if live:
        receiver.on_request.append(live.put)
    _end_by_signals(ended)
    for address in [] if tls else receiver.addresses:
        if not address.is_loopback():
            report(
                f"warning: {address} is open to the network without TLS: anybody there can send and read traces; "
                "see --tls-cert, --tls-key, --client-ca"
            )
    receiver.start(parts)
    places = ", ".join(map(str, receiver.addresses))
    print(f"listening on {places}, writing to {printable(str(folder))}; Ctrl-C ends it", flush=True)
    ticks = itertools.count(1)
    while not ended.wait(0.2):
        if live:
            live.step()
        if next(ticks) % 5 == 0:
            line.refresh()
            # Where the disk is full the senders hear of it, and it is reported; the index comes when there is space.
            with contextlib.suppress(OSError):
                parts.write_index()
    receiver.stop()
    line.close()
    if live:
        live.close()
    parts.close()
    code = _summary(parts, is_failing=receiver.failing)
    return max(code, _verdict(folder, options.kubernetes_version)) if live else code


def _recover(folder: Path) -> int:
    if not any(folder.glob("part-*")):
        raise ReceiveError(f"{printable(str(folder))} holds no part of a dump")
    recovered = recover(folder)
    for name, left in recovered.cut.items():
        what = f"{counted(left, 'byte')} cut off, kept in .{printable(name)}.cut"
        report(f"warning: {printable(name)}: {what}: a request is lost")
    found = f"{counted(recovered.spans, 'span')} in {counted(recovered.requests, 'request')}"
    print(f"{printable(str(folder))}: {found}")
    return OK if recovered.spans else FAILED


def _make_folder(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    if any(folder.iterdir()):
        raise ReceiveError(f"{printable(str(folder))} is not empty: name a new folder, or move away what is in it")


def _end_by_signals(ended: threading.Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Ignored: it was started by nohup, or as a background job of a script.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: ended.set())


def _summary(parts: Parts, *, is_failing: bool) -> int:
    """Print what was received, and what was not; return the exit code."""
    folder = printable(str(parts.folder))
    print(
        f"{folder}: {counted(parts.spans, 'span')} in {counted(parts.requests, 'request')}, {parts.bytes} bytes; "
        f"services: {services(parts) or 'none'}"
    )
    for reason, number in sorted(parts.refused.items()):
        again = ": their senders try again for some time, what they gave up is missing" * (reason == NOT_WRITABLE)
        report(f"warning: {counted(number, 'request')} refused as {reason}{again}")
    if is_failing:
        report(f"error: {folder}: the last request could not be written, so spans are missing")
        return FAILED
    if not parts.spans:
        report("warning: nothing was received: does anything send to it (OTLP/gRPC)?")
    return OK


def _verdict(folder: Path, kubernetes_version: str) -> int:
    """Print what the suite says of the dump; return the exit code."""
    usage = judge(folder, kubernetes_version or release_of(folder.name))
    usage = with_quality_findings(usage, QualityLimits())
    for warning in usage.quality.warnings():
        report(f"warning: {warning}")
    if usage.error is not None:
        report(f"error: {usage.error}")
        return FAILED
    if usage.findings:
        print(failure_text(usage.findings, dump=str(folder)))
        return FAILED
    print(f"{printable(str(folder))}: nothing that nobody expects")
    return OK


if __name__ == "__main__":
    run(main)
