"""What all tests of the tool need of their process."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# A job in the background, or under nohup, is started with these ignored, and so would be each program that a test starts
# and interrupts: https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_11. What is handled
# here has its default in a program that is started.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)


@pytest.fixture(autouse=True, scope="session")
def _same_output_everywhere() -> Iterator[None]:
    """Leave out the variables by which pytest, run by a test, would print other lines in a CI job or a wide terminal.

    With `CI` or `BUILD_NUMBER` it repeats each failure whole in its summary:
    https://docs.pytest.org/en/stable/explanation/ci.html
    """
    names = ("CI", "BUILD_NUMBER", "COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "PYTEST_ADDOPTS")
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            if name in os.environ:
                patch.delenv(name)
        yield
