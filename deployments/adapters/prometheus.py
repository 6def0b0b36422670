"""Instant queries to a Prometheus by its HTTP API.

https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries
"""

from __future__ import annotations

import http.client
import json
import math
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from console.adapters import outgoing
from console.errors import CovenantError, Unavailable
from console.rules.outgoing import WEBHOOK_SCHEMES, Network, Target, parse_target

TIMEOUT_S = 5.0
LONGEST_ANSWER = 1024 * 1024


def query(address: str, text: str, *, allowed: Iterable[Network] = ()) -> float | None:
    """The one value that the query has now; None where it has none (no series, or not a number).

    `address` may have a path before `/api/v1/query`; `allowed` are networks of private addresses
    that may be connected to. Raises Unavailable: `address_not_allowed`, `unreachable`,
    `query_refused` (with Prometheus' own words) or `unusable_answer`.
    """
    target = parse_target(address, WEBHOOK_SCHEMES)
    answer = _get(target, text, tuple(allowed))
    if answer.get("status") != "success":
        words = str(answer.get("error") or "no reason was given")[:500]
        raise Unavailable(f"Prometheus refused the query: {words}.", code="query_refused")
    return _value(answer.get("data"))


def _get(target: Target, text: str, allowed: tuple[Network, ...]) -> dict[str, Any]:
    body = urlencode({"query": text, "timeout": f"{TIMEOUT_S:g}s"})
    path = target.path.partition("?")[0].rstrip("/") + "/api/v1/query"
    connection = http.client.HTTPConnection(target.host, target.port, timeout=TIMEOUT_S)
    try:
        connection.sock = outgoing.connect(target, allowed=allowed)
        connection.sock.settimeout(TIMEOUT_S)
        connection.request(
            "POST",
            path,
            body=body,
            headers={
                "Content-Type": "application/x-www-form-urlencoded",
                "Accept": "application/json",
            },
        )
        response = connection.getresponse()
        raw = response.read(LONGEST_ANSWER + 1)
    except CovenantError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise outgoing.unreachable(target, str(error) or type(error).__name__) from error
    finally:
        connection.close()
    if len(raw) > LONGEST_ANSWER:
        raise _unusable("it is longer than 1 MiB")
    try:
        answer = json.loads(raw)
    except ValueError as error:
        raise _unusable(f"HTTP {response.status}, and no JSON") from error
    if not isinstance(answer, dict):
        raise _unusable("it is no object")
    return answer


def _value(data: object) -> float | None:
    """The value of a scalar, or of a vector with one element."""
    if not isinstance(data, dict):
        raise _unusable("it has no data")
    kind, result = data.get("resultType"), data.get("result")
    if kind == "vector" and isinstance(result, list):
        if not result:
            return None
        if len(result) > 1:
            raise _unusable(f"the query gives {len(result)} values: sum or choose to have one")
        result = result[0].get("value") if isinstance(result[0], dict) else None
    elif kind != "scalar":
        raise _unusable(f"the query gives a {kind}, and one number is needed")
    try:
        value = float(result[1])  # type: ignore[index]
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise _unusable("it holds no number") from error
    if math.isinf(value):
        raise _unusable("the query gives an infinite value")
    return None if math.isnan(value) else value


def _unusable(why: str) -> Unavailable:
    return Unavailable(f"Prometheus’ answer cannot be used: {why}.", code="unusable_answer")
