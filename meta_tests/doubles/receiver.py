"""The real receiver, on a free port in place of addresses that only Docker has, and a span of each of two services."""

import socket
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from etcd_coverage import cli, receive
from meta_tests.builder import dump, resource, span
from meta_tests.otlp_sender import request_of, sender

SPANS = [resource([span("00000000000000aa")], service) for service in ("apiserver", "etcd")]


def send(address: str) -> None:
    with sender(address) as exporter:
        exporter.send(request_of(dump(*SPANS)), wait=True)


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    output = sys.argv[sys.argv.index("-o") + 1]
    threading.Thread(target=send, args=(address,), daemon=True).start()
    cli.run(lambda: receive.main(["-o", output, "--listen", address]))
