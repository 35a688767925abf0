"""A finding -> the row to paste into reference.py that would expect it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from etcd_coverage import reference
from etcd_coverage.judging.finding_kinds import NEW_CALL_PATTERN, NEW_KEY_PATTERN, UNEXPECTED_METHOD
from etcd_coverage.key_pattern import PREFIX, SpecialResource, key_pattern
from etcd_coverage.reference import GRPC_METHODS, SPECIAL_KEYS, SPECIAL_RESOURCES, Arg

if TYPE_CHECKING:
    from etcd_coverage.attributes import Attributes
    from etcd_coverage.judging.usage import Finding
    from etcd_coverage.reference import GrpcMethod

LONGEST = 1000
"""How many characters attributes may have to be shown, as somebody is to paste them."""

WHY = "say here why Kubernetes does so"
"""The reason of a row that is made up here: whoever pastes it knows better."""


def row_to_paste(finding: Finding) -> tuple[str, str]:
    """Return the tuple of reference.py that the row belongs at the end of, and the row, as Python writes it.

    Both are empty for a finding that no row would expect: the kinds of row are `GrpcMethod`, `CallPattern`,
    `SpecialResource` and `SpecialKey`.
    """
    attributes = attributes_of(finding)
    method = next((method for method in GRPC_METHODS if method.name == finding.grpc_method), None)
    if finding.id == UNEXPECTED_METHOD:
        return _grpc_method(finding.grpc_method)
    if finding.id == NEW_CALL_PATTERN and method is not None and attributes:
        return _call_pattern(method, attributes)
    if finding.id == NEW_KEY_PATTERN and method is not None:
        key = attributes.get(method.key)
        if isinstance(key, str) and key:
            return _special_key(key)
    return "", ""


def python_dict(attributes: Attributes) -> str:
    """Return the attributes as Python writes a dict, in printable ASCII; empty if they are too long.

    Those of a type that no argument has are left out.
    """
    text = _source({key: value for key, value in attributes.items() if value is not None})
    return text if len(text) <= LONGEST else ""


def attributes_of(finding: Finding) -> Attributes:
    """Return the attributes that `python_dict` wrote into the finding; none if they are not what it writes."""
    try:
        found = ast.literal_eval(finding.attributes or "{}")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: value for key, value in found.items() if type(key) is str and type(value) in (str, int, bool)}


def _grpc_method(name: str) -> tuple[str, str]:
    if not re.fullmatch(r"etcdserverpb\.[A-Z]\w+/[A-Z]\w+", name, re.ASCII):
        return "", ""
    return "GRPC_METHODS", _call("GrpcMethod", name=name, reason=WHY, required=False)


def _call_pattern(method: GrpcMethod, attributes: Attributes) -> tuple[str, str]:
    """Return a call pattern that matches calls with the same args and, of transactions, the same parts."""
    is_set = [_ARGS[arg] for arg in method.args if arg in _ARGS and arg.is_set(attributes)]
    is_not_set = [_ARGS[arg] for arg in method.args if arg in _ARGS and not arg.is_set(attributes)]
    matchers = [f"{name}.is_set" for name in is_set]
    matchers += [
        f"equals({_source(key)}, {_source(value)})"
        for key, value in attributes.items()
        if key.endswith(_PARTS) and type(value) in (str, int)
    ]
    if is_not_set:
        matchers.append(f"none_of({', '.join(f'{name}.is_set' for name in is_not_set)})")
    words = [word for arg in method.args if arg.is_set(attributes) for word in arg.name.split("_")]
    name = "".join(word[0].upper() + word[1:] for word in words) or "NoArgs"
    taken = {pattern.name for pattern in method.call_patterns}
    while name in taken:
        name += "Too"
    arguments = {"name": name, "reason": WHY, "matches": _AllOf(matchers), "example": attributes}
    return f"the call_patterns of {method.name}", _call("CallPattern", **arguments)


_PARTS = ("_len", "_type")
_ARGS = {value: name for name, value in vars(reference).items() if isinstance(value, Arg)}


def _special_key(key: str) -> tuple[str, str]:
    name = key.removeprefix(PREFIX).strip("/").split("/")[0]
    special = SpecialResource(name=name, reason=WHY, example=(key, ""), has_subresource=True)
    pattern = key_pattern(key, SPECIAL_KEYS, (special,)) if key.startswith(f"{PREFIX}/") and name else None
    if pattern is None or any(name == known.name for known in SPECIAL_RESOURCES):
        return "SPECIAL_KEYS", _call("SpecialKey", key=key, reason=WHY)
    row = _call("SpecialResource", name=name, reason=WHY, has_subresource=True, example=(key, pattern))
    return "SPECIAL_RESOURCES", row


class _AllOf:
    """Matchers as Python writes them, to be combined."""

    def __init__(self, matchers: list[str]) -> None:
        self.matchers = matchers


def _call(kind: str, /, **arguments: object) -> str:
    lines = [f"{kind}("]
    for key, value in arguments.items():
        whole = f"    {key}={_source(value)},"
        parts = _parts(value) if len(whole) > _WIDTH else []
        if len(parts) > 2:
            first, *inside, last = parts
            lines += [f"    {key}={first}", *(f"        {part}," for part in inside), f"    {last},"]
        else:
            lines.append(whole)
    return "\n".join([*lines, "),"])


_WIDTH = 100
"""How long a line may be, so that it has less than 120 characters where it is pasted."""


def _parts(value: object) -> list[str]:
    """Return what may stand on lines of its own: what the value starts with, what is in it, and what it ends with."""
    if isinstance(value, dict):
        return ["{", *(f"{_source(key)}: {_source(one)}" for key, one in value.items()), "}"]
    if isinstance(value, tuple):
        return ["(", *map(_source, value), ")"]
    if isinstance(value, _AllOf):
        return ["all_of(", *value.matchers, ")"]
    return []


def _source(value: object) -> str:
    """Return the value as Python writes it, in printable ASCII, texts in double quotes."""
    if isinstance(value, _AllOf) and len(value.matchers) < 2:
        return "".join(value.matchers) or "always"
    if parts := _parts(value):
        first, *inside, last = parts
        return first + ", ".join(inside) + last
    if isinstance(value, str):
        escaped = value.encode("unicode_escape").decode().replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
