"""User agent -> component, role and e2e test.

Kubernetes' clients write ``BINARY/VERSION (OS/ARCH) kubernetes/COMMIT``, then a role where they have several, then the
test that runs where they are e2e.test:
https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/client-go/rest/config.go.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class UserAgent(NamedTuple):
    """Who sends requests: the binary, what it does of several things, and the e2e test that it runs; or empty."""

    component: str
    role: str
    test: str


def parse(text: str) -> UserAgent:
    """Return what the user agent says; of a form that is not Kubernetes' the component alone.

    The role of a service account is its name, without the namespace.
    """
    found = _KUBERNETES.fullmatch(text)
    if found is None:
        return UserAgent(_END_OF_COMPONENT.split(text, 1)[0], "", "")
    role = found["role"] or ""
    account = _SERVICE_ACCOUNT.fullmatch(role)
    return UserAgent(found["component"], account["name"] if account else role, found["test"] or "")


_KUBERNETES = re.compile(
    r"(?P<component>[^/\s]+)/\S* \([^()]*\) kubernetes/[^/\s]+(?:/(?P<role>.*?))?(?: -- (?P<test>.*))?", re.DOTALL
)
_SERVICE_ACCOUNT = re.compile(r"system:serviceaccount:[^:]*:(?P<name>.*)", re.DOTALL)
_END_OF_COMPONENT = re.compile(r"[/\s]")
