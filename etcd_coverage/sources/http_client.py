"""An HTTP client for one server, with the proxies and certificates that the environment names."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
# Shorter ones would be found in any text.
_SHORTEST_SECRET = 6


class ClientError(Exception):
    """Why there is no client, in one line."""


def http_client(url: httpx.URL, headers: Sequence[tuple[str, str]], timeout: httpx.Timeout) -> httpx.Client:
    """Return a client that sends these headers to a server.

    This machine itself is never asked through a proxy, whatever the environment says. Raises ClientError if the
    environment names proxies or certificates that cannot be used.
    """
    verify = _certificates(url)
    try:
        return httpx.Client(
            headers=list(headers),
            timeout=timeout,
            follow_redirects=True,
            verify=verify,
            trust_env=not is_loopback(url.host),
        )
    except ImportError:
        raise ClientError(
            f"{proxies()} name a SOCKS proxy, which needs another package: pip install 'httpx[socks]', or unset them"
        ) from None
    except (ValueError, httpx.InvalidURL):  # their texts may hold the proxy's password
        raise ClientError(f"{proxies()} cannot be used: correct or unset what is no URL or list of hosts") from None


def is_loopback(host: str) -> bool:
    """Return whether the host is this machine, by its name or address alone."""
    host = host.rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):  # https://www.rfc-editor.org/rfc/rfc6761#section-6.3
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    # To connect to 0.0.0.0 or :: is to connect to this machine.
    return address.is_loopback or address.is_unspecified


def proxies() -> str:
    """Return the names of the variables in the environment that name proxies, or an empty text."""
    return ", ".join(sorted(name for name, value in os.environ.items() if value and name.lower() in _PROXIES))


def without_secrets(url: httpx.URL) -> str:
    """Return the URL as it can be printed: without user, password, query and fragment."""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None)).rstrip("/")


def secrets_of(url: httpx.URL, headers: Sequence[tuple[str, str]]) -> re.Pattern[str] | None:
    """Return what finds passwords and tokens of the URL and the headers in a text, None if there are none."""
    texts = {url.username, url.password, *url.params.values()}
    for _, value in headers:
        texts |= {value, value.split()[-1]}  # without "Bearer"
    found = sorted((re.escape(text) for text in texts if len(text) >= _SHORTEST_SECRET), key=len, reverse=True)
    return re.compile("|".join(found)) if found else None


def _certificates(url: httpx.URL) -> ssl.SSLContext:
    try:
        return httpx.create_ssl_context()
    except OSError as error:  # ssl.SSLError is one
        if url.scheme == "http":
            # They are needed for nothing but a redirect to https, which fails by this one: it trusts no server.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        reason = error.strerror or error
        raise ClientError(f"the certificates that SSL_CERT_FILE names cannot be loaded: {reason}") from None
