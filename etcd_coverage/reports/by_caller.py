"""Usage -> the calls of each caller alone: in rows, in their sums and in the heat map.

A caller is named by the number of its line in the table of the callers; one number more stands for the rest of them.
"""

from __future__ import annotations

from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.judging.origins import caller_name, origin_text
from etcd_coverage.reports import heat, view
from etcd_coverage.reports.callers import CallersTable, callers_table
from etcd_coverage.reports.figures import Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from etcd_coverage.judging.usage import Origin, OtherOrigins, Row, Shape, Usage

MOST_ORIGINS = 10
"""How many origins of a row are named; the rest are added up."""


class CallerShares(Struct, frozen=True):
    """A caller's calls in a row or some: through the contract, as a share of all that it makes of the gRPC method.

    ``origins`` says how many origins they have.
    """

    contract: Share
    share: Share
    origins: int


class OriginLine(Struct, frozen=True):
    """Who makes calls for which request, how many, and the number of the caller."""

    text: str
    calls: int
    caller: int


class RestOfOrigins(Struct, frozen=True):
    """How many origins are not named, and their calls."""

    origins: int
    calls: int


class RowOrigins(Struct, frozen=True):
    """The origins of a row, the heaviest first; ``rest`` adds up those not named, ``rest_by_caller`` each caller's."""

    number: int
    lines: list[OriginLine]
    rest: RestOfOrigins | None
    rest_by_caller: dict[int, RestOfOrigins]


class ByCaller:
    """What each caller's calls alone are."""

    def __init__(self, usage: Usage, table: CallersTable) -> None:
        self.table = table
        self._names = {line.name: number for number, line in enumerate(table.lines)}
        self._rest = len(table.lines)
        self._of_methods = {method: self._sums(rows) for method, rows in view.by_method(usage.rows)}
        self._all = self._sums(usage.rows)
        places: defaultdict[tuple[str, Shape], list[Row]] = defaultdict(list)
        for row in usage.rows:
            places[heat.place_of(row)].append(row)
        self._cells = {
            place: {caller: heat.cell(sums.calls) for caller, sums in self._sums(rows).items()}
            for place, rows in places.items()
        }
        self._left_out = {method: view.split_rows(rows)[1] for method, rows in view.by_method(usage.rows)}

    def row(self, row: Row) -> dict[int, CallerShares]:
        """Return the calls in a row of each caller that has any there."""
        return self._shares([row], self._of_methods[row.grpc_method])

    def left_out(self, grpc_method: str) -> dict[int, CallerShares]:
        """Return the calls in the rows of a gRPC method that its table leaves out, of each caller."""
        return self._shares(self._left_out[grpc_method], self._of_methods[grpc_method])

    def total(self) -> dict[int, CallerShares]:
        """Return all calls in rows of each caller."""
        return {
            caller: CallerShares(Share(sums.contract_calls, sums.calls), Share(sums.calls, sums.calls), sums.origins)
            for caller, sums in self._all.items()
        }

    def cells(self, key: str, shape: Shape) -> dict[int, heat.Cell]:
        """Return the heat map's cell for each caller."""
        return self._cells[key, shape]

    def callers_of_key(self, key: str) -> list[int]:
        """Return who makes calls in the heat map's row of the key pattern."""
        return sorted({caller for (place, _), cells in self._cells.items() if place == key for caller in cells})

    def origins(self, row: Row) -> RowOrigins:
        """Return the origins of a row."""
        return origins_of(row.origins, row.other_origins, self._names)

    def _number(self, origin: Origin) -> int:
        return self._names.get(caller_name(origin), self._rest)

    def _sums(self, rows: Iterable[Row]) -> dict[int, _Sums]:
        found: dict[int, _Sums] = {}
        for row in rows:
            # What no origin names is the rest's: it adds up to the row also where a saved usage does not name all.
            calls, contract_calls = row.calls, row.contract_calls
            for origin in row.origins:
                number = self._number(origin)
                found.setdefault(number, _Sums()).add(origin.calls, origin.contract_calls, 1)
                calls -= origin.calls
                contract_calls -= origin.contract_calls
            if calls:
                others = row.other_origins.origins if row.other_origins else 0
                found.setdefault(self._rest, _Sums()).add(calls, contract_calls, others)
        return found

    def _shares(self, rows: Iterable[Row], of_method: dict[int, _Sums]) -> dict[int, CallerShares]:
        return {
            caller: CallerShares(
                Share(sums.contract_calls, sums.calls), Share(sums.calls, of_method[caller].calls), sums.origins
            )
            for caller, sums in self._sums(rows).items()
        }


def origins_of(
    origins: Sequence[Origin], others: OtherOrigins | None, names: Mapping[str, int] = MappingProxyType({})
) -> RowOrigins:
    """Return the origins, the heaviest first, ``others`` being those that a saved usage does not name.

    ``names`` are the numbers of the callers.
    """
    lines = [OriginLine(origin_text(one), one.calls, names.get(caller_name(one), len(names))) for one in origins]
    rest: dict[int, RestOfOrigins] = {}
    for line in lines[MOST_ORIGINS:]:
        _add(rest, line.caller, 1, line.calls)
    if others:
        _add(rest, len(names), others.origins, others.calls)
    total = RestOfOrigins(sum(one.origins for one in rest.values()), sum(one.calls for one in rest.values()))
    number = len(lines) + (others.origins if others else 0)
    return RowOrigins(number, lines[:MOST_ORIGINS], total if rest else None, rest)


def by_caller(usage: Usage) -> ByCaller | None:
    """Return what each caller's calls alone are; None where it was not recorded who makes them."""
    table = callers_table(usage)
    return ByCaller(usage, table) if table else None


class _Sums:
    __slots__ = ("calls", "contract_calls", "origins")

    def __init__(self) -> None:
        self.calls = self.contract_calls = self.origins = 0

    def add(self, calls: int, contract_calls: int, origins: int) -> None:
        self.calls += calls
        self.contract_calls += contract_calls
        self.origins += origins


def _add(rest: dict[int, RestOfOrigins], caller: int, origins: int, calls: int) -> None:
    before = rest.get(caller, RestOfOrigins(0, 0))
    rest[caller] = RestOfOrigins(before.origins + origins, before.calls + calls)
