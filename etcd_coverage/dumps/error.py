"""Why a file cannot be used."""

from __future__ import annotations


class DumpError(Exception):
    """Why a file cannot be judged: one line that says what is wrong, where, and what to do next."""

    def within(self, place: str) -> DumpError:
        """Return the same error with the place before it."""
        return type(self)(f"{place}: {self}")


class CutError(DumpError):
    """The content ends in the middle of what it says it is."""


class MoreError(DumpError):
    """More follows after the end of the content."""


DOWNLOAD = "python -m etcd_coverage.jaeger"
"""The command that makes a dump, as errors name it."""

AGAIN = f"download it again with {DOWNLOAD}"
EXPECTED = f"a dump is what Jaeger's /api/v3/traces answers, or OTLP as README.md lists: make one with {DOWNLOAD}"
COLLECT_AGAIN = "copy it again, or let what writes it end by itself and collect again"
TOO_DEEP = "JSON nested too deep to be a dump"


def unknown_form(what: str) -> DumpError:
    """Return the error that something is in a form that the protobuf JSON mapping does not have."""
    return DumpError(f"{what}: a form that OTLP does not know; check what exported these traces")
