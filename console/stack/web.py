"""One plain GET to a service of our own, for readiness checks."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit


def get(url: str, *, seconds: float = 2.0) -> tuple[int, bytes]:
    """Status and body, or (0, b"") when nobody answers in time. No proxy, no redirect."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)
    try:
        connection.request("GET", parts.path + (f"?{parts.query}" if parts.query else ""))
        response = connection.getresponse()
        return response.status, response.read(1 << 20)
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def status(url: str) -> int:
    """HTTP status of a GET, 0 when nobody answers."""
    return get(url)[0]
