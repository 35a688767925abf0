"""Key -> key pattern: what is left of a key of the Kubernetes API when names are taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = "/registry"


class SpecialKey(Struct, frozen=True, kw_only=True):
    """A key that is its own pattern."""

    key: str
    reason: str


class SpecialResource(Struct, frozen=True, kw_only=True):
    """A resource whose name stays in its key pattern; ``example`` is a key and the pattern it has.

    ``has_subresource`` says that a second segment belongs to the resource, as in ``/registry/services/endpoints``.
    """

    name: str
    reason: str
    example: tuple[str, str]
    has_subresource: bool = False


def key_pattern(
    key: str, special_keys: Iterable[SpecialKey], special_resources: Iterable[SpecialResource]
) -> str | None:
    """Return the pattern of a key, such as ``/registry/{resource}/{namespace}/{name}``; None if it has none.

    A key that ends in a slash is a prefix, and so is its pattern. The layout of the keys is that of the apiserver's
    storage: https://github.com/kubernetes/kubernetes/tree/master/staging/src/k8s.io/apiserver/pkg/registry/generic.
    """
    if any(key == special.key for special in special_keys):
        return key
    if not key.startswith(PREFIX):
        return None
    rest = key.removeprefix(PREFIX)
    end = "/" if rest.endswith("/") else ""
    first, *others = rest.strip("/").split("/")
    if not first:
        return None
    special = next((special for special in special_resources if special.name == first), None)
    if special is not None:
        resource, second = first, "{subresource}" if special.has_subresource else ""
    elif "." in first:
        resource, second = "{api-group}", "{resource}"
    else:
        resource, second = "{resource}", ""
    if second:
        if not others:
            return None
        resource = f"{resource}/{second}"
        others = others[1:]
    match len(others), end:
        case 0, _:
            shape = end
        case 1, "/":
            shape = "/{namespace}/"
        case 1, _:
            shape = "/{name}"
        case 2, "":
            shape = "/{namespace}/{name}"
        case _:
            return None
    return f"{PREFIX}/{resource}{shape}"


_SHAPES = ("", "/", "/{name}", "/{namespace}/", "/{namespace}/{name}")


def every_pattern(special_keys: Iterable[SpecialKey], special_resources: Iterable[SpecialResource]) -> frozenset[str]:
    """Return all the patterns that `key_pattern` can return."""
    resources = ["{resource}", "{api-group}/{resource}"]
    resources += [
        f"{special.name}/{{subresource}}" if special.has_subresource else special.name for special in special_resources
    ]
    return frozenset(f"{PREFIX}/{resource}{shape}" for resource in resources for shape in _SHAPES) | frozenset(
        special.key for special in special_keys
    )
