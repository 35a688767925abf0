"""key_pattern: the rows that the reference semantics name, and properties of all keys."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etcd_coverage.key_pattern import SpecialResource, every_pattern, key_pattern
from etcd_coverage.reference import SPECIAL_KEYS, SPECIAL_RESOURCES

VALID = {
    "/registry/health": "/registry/health",
    "compact_rev_key": "compact_rev_key",
    "/registry/pods": "/registry/{resource}",
    "/registry/pods/": "/registry/{resource}/",
    "/registry/resource_rev": "/registry/{resource}",
    "/registry/pods/default": "/registry/{resource}/{name}",
    "/registry/pods/default/": "/registry/{resource}/{namespace}/",
    "/registry/pods/default/web": "/registry/{resource}/{namespace}/{name}",
    "/registry/pods/default/web\x00": "/registry/{resource}/{namespace}/{name}",
    "/registry/pods\x00": "/registry/{resource}",
    "/registrypods": "/registry/{resource}",
    "/registry//pods": "/registry/{resource}",
    "/registry/pods//": "/registry/{resource}/",
    "/registry/pods//web": "/registry/{resource}/{namespace}/{name}",
    "/registry/health/": "/registry/{resource}/",
    "/registry/health/x": "/registry/{resource}/{name}",
    "/registry/compact_rev_key": "/registry/{resource}",
    "/registry/crd.io/resource": "/registry/{api-group}/{resource}",
    "/registry/crd.io/resource/": "/registry/{api-group}/{resource}/",
    "/registry/crd.io/resource/object": "/registry/{api-group}/{resource}/{name}",
    "/registry/crd.io/resource/default/": "/registry/{api-group}/{resource}/{namespace}/",
    "/registry/crd.io/resource/default/object": "/registry/{api-group}/{resource}/{namespace}/{name}",
    "/registry/./x": "/registry/{api-group}/{resource}",
    "/registry/pods/with.dot": "/registry/{resource}/{name}",
    "/registry/services/endpoints": "/registry/services/{subresource}",
    "/registry/services/specs/": "/registry/services/{subresource}/",
    "/registry/services/specs/default/": "/registry/services/{subresource}/{namespace}/",
    "/registry/services/specs/default/web": "/registry/services/{subresource}/{namespace}/{name}",
    "/registry/masterleases/": "/registry/masterleases/",
    "/registry/masterleases/192.168.32.1": "/registry/masterleases/{name}",
    "/registry/events": "/registry/events",
    "/registry/events/": "/registry/events/",
    "/registry/events/default/": "/registry/events/{namespace}/",
    "/registry/events/default/web.17f0": "/registry/events/{namespace}/{name}",
    "/registry/eventsx/a": "/registry/{resource}/{name}",
}
INVALID = [
    "",
    "/",
    "key",
    "\x00",
    "/other-registry",
    "registry/pods",
    "/registry",
    "/registry/",
    "/registry//",
    "compact_rev_key/",
    "/registry/services",
    "/registry/services/",
    "/registry/.",
    "/registry/example.com",
    "/registry/example.com/",
    "/registry/pods/default/web/",
    "/registry/pods/default/web/log",
    "/registry/crd.io/resource/default/object/status",
    "/registry/services/specs/default/web/x",
    "/registry/events/default/web/",
]


def test_special_resource_may_have_a_dot_in_its_name() -> None:
    special = SpecialResource(name="a.b", reason="-", example=("", ""))
    assert key_pattern("/registry/a.b/web", [], [special]) == "/registry/a.b/{name}"


def pattern_of(key: str) -> str | None:
    return key_pattern(key, SPECIAL_KEYS, SPECIAL_RESOURCES)


@pytest.mark.parametrize(("key", "pattern"), VALID.items())
def test_valid_key_has_its_pattern(key: str, pattern: str) -> None:
    assert pattern_of(key) == pattern


@pytest.mark.parametrize("key", INVALID)
def test_invalid_key_has_none(key: str) -> None:
    assert pattern_of(key) is None


segment = st.text(st.sampled_from("ab./{}\x00é"), max_size=6) | st.sampled_from(
    ["services", "masterleases", "events", "pods", "crd.io", "health", "compact_rev_key"]
)
keys = st.text() | st.builds(
    "/registry{}".format, st.lists(segment, max_size=6).map(lambda parts: "/" + "/".join(parts))
)


@given(keys)
@settings(deadline=None)
def test_every_key_has_a_pattern_or_none(key: str) -> None:
    pattern = pattern_of(key)
    assert pattern is None or pattern == "compact_rev_key" or pattern.startswith("/registry/")
    assert pattern == pattern_of(key)


@given(keys)
@settings(deadline=None)
def test_patterns_are_few_and_known_beforehand(key: str) -> None:
    pattern = pattern_of(key)
    assert pattern is None or pattern in every_pattern(SPECIAL_KEYS, SPECIAL_RESOURCES)


def test_every_pattern_has_a_key() -> None:
    heads = [f"/{one.name}/specs" if one.has_subresource else f"/{one.name}" for one in SPECIAL_RESOURCES]
    assert every_pattern(SPECIAL_KEYS, SPECIAL_RESOURCES) == {
        pattern_of(f"/registry{head}{shape}")
        for head in ("/pods", "/crd.io/resource", *heads)
        for shape in ("", "/", "/web", "/default/", "/default/web")
    } | {special.key for special in SPECIAL_KEYS}


@given(keys)
@settings(deadline=None)
def test_a_pattern_keeps_the_slash_at_the_end(key: str) -> None:
    pattern = pattern_of(key)
    if pattern is not None:
        assert pattern.endswith("/") == key.endswith("/")
