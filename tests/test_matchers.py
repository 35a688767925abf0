"""Matchers: decision tables by hand."""

from __future__ import annotations

import pytest

from etcd_coverage.attributes import Attributes, AttributeValue, get_bool, get_int, get_str
from etcd_coverage.matchers import Matcher, all_of, always, bool_set, equals, int_set, none_of, str_set


@pytest.mark.parametrize(
    ("matcher", "matched", "not_matched"),
    [
        (int_set("x"), [1, 2**62], [0, -1, "1", True, None]),
        (str_set("x"), ["a", "\x00", "0"], ["", 1, True, None]),
        (bool_set("x"), [True], [False, 1, "true", None]),
        (equals("x", 1), [1], [0, 2, -1, "1", True, None]),
        (equals("x", "put"), ["put"], ["Put", "", 1, None]),
    ],
)
def test_matcher_of_one_attribute(
    matcher: Matcher, matched: list[AttributeValue], not_matched: list[AttributeValue]
) -> None:
    assert [value for value in matched if not matcher({"x": value})] == []
    assert [value for value in not_matched if matcher({"x": value})] == []
    assert not matcher({})
    assert not matcher({"y": matched[0]})


@pytest.mark.parametrize(
    ("attributes", "every", "none"),
    [({}, False, True), ({"a": 1}, False, False), ({"b": 1}, False, False), ({"a": 1, "b": 1}, True, False)],
)
def test_combinators(attributes: Attributes, every: bool, none: bool) -> None:
    a, b = int_set("a"), int_set("b")
    assert all_of(a, b)(attributes) is every
    assert none_of(a, b)(attributes) is none
    assert always(attributes)


def test_empty_combinators_match_everything() -> None:
    assert all_of()({})
    assert none_of()({})


def test_look_up_of_another_type_is_the_zero_value() -> None:
    attributes: Attributes = {"int": 5, "str": "5", "bool": True, "none": None}
    assert [get_int(attributes, key) for key in ("int", "str", "bool", "none", "gone")] == [5, 0, 0, 0, 0]
    assert [get_str(attributes, key) for key in ("int", "str", "bool", "none", "gone")] == ["", "5", "", "", ""]
    assert [get_bool(attributes, key) for key in ("int", "str", "bool", "none", "gone")] == [
        False,
        False,
        True,
        False,
        False,
    ]
