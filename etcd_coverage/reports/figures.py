"""What all reports share: shares, how much is shown, texts of bounded length, links to traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from msgspec import Struct

from etcd_coverage.comparing.saved import MESSAGE_WIDTH
from etcd_coverage.text import percent, printable, shorten, shorten_middle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from etcd_coverage.judging.usage import Example

MOST_SHOWN = 20
"""How many of what nobody expected (unknown keys of a gRPC method, findings of a kind, methods) are shown."""

KEY_WIDTH = 100
"""How many characters of a key or a name are shown."""

ERROR_WIDTH = 2000
"""How many characters of a dump's error are shown: it ends with what to do."""

_Item = TypeVar("_Item")


class Share(Struct, frozen=True):
    """Calls (or other things), and the number of those that they are a part of."""

    calls: int
    of: int

    @property
    def percent(self) -> str:
        """The share in percent, as all reports show it: "12.50%"."""
        return percent(self.calls, self.of)

    @property
    def fraction(self) -> float:
        """The share from 0 to 1, not rounded; 0 of nothing."""
        return self.calls / self.of if self.of else 0.0


class Trace(Struct, frozen=True):
    """A span that shows something: its ids, and the address of Jaeger's page of its trace; empty without a Jaeger."""

    trace_id: str
    span_id: str
    address: str


def key_text(text: str) -> str:
    """Return a key or a name, printable and not too long."""
    return shorten_middle(printable(text), KEY_WIDTH)


def message_text(text: str) -> str:
    """Return a message, printable and not too long."""
    return shorten_middle(printable(text), MESSAGE_WIDTH)


def trace_of(example: Example | None, jaeger_url: str = "") -> Trace | None:
    """Return the example as it is shown; None if there is none."""
    if example is None:
        return None
    address = f"{jaeger_url.rstrip('/')}/trace/{quote(shorten(example.trace_id, KEY_WIDTH), safe='')}"
    return Trace(key_text(example.trace_id), key_text(example.span_id), address if jaeger_url else "")


def heaviest(
    items: Sequence[_Item], unexpected: Callable[[_Item], bool], calls: Callable[[_Item], int]
) -> tuple[list[_Item], list[_Item]]:
    """Split into what is shown, in the given order, and the rest: of what is unexpected the heaviest are shown."""
    odd = [number for number, item in enumerate(items) if unexpected(item)]
    rest = set(sorted(odd, key=lambda number: -calls(items[number]))[MOST_SHOWN:])
    shown = [item for number, item in enumerate(items) if number not in rest]
    return shown, [items[number] for number in sorted(rest)]
