"""`Idempotency-Key`: a client's retry of a write has one effect and one answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, cast

from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.authentication import actor_of
from console.errors import Invalid
from console.services.idempotent_requests import claim_request, keep_answer, release_request

P = ParamSpec("P")
Method: TypeAlias = Callable[Concatenate[Any, Request, P], Response]


def idempotent(method: Method[P]) -> Method[P]:
    """Wrap a write method of an APIView: the same key and body give the first answer again.

    The key's row is claimed before the work, so that two at once are one; an error releases it.
    Raises Invalid for a key over 200 characters, Conflict for a key used with another body.
    """

    @wraps(method)
    def wrapper(view: Any, request: Request, *args: P.args, **kwargs: P.kwargs) -> Response:
        key = request.headers.get("Idempotency-Key", "")
        if not key:
            return method(view, request, *args, **kwargs)
        if len(key) > 200 or "\0" in key:
            raise Invalid("Idempotency-Key is longer than 200 characters.", code="bad_key")
        row = claim_request(user=actor_of(request).user, key=key, fingerprint=_fingerprint(request))
        if row.status:
            return Response(row.body, status=row.status, headers={"Idempotent-Replayed": "true"})
        try:
            response = method(view, request, *args, **kwargs)
        except BaseException:
            release_request(row=row)
            raise
        # As it goes to the caller, so that the second answer is the first, byte for byte.
        body = json.loads(JSONRenderer().render(response.data) or b"null")
        keep_answer(row=row, status=response.status_code, body=body)
        return response

    return cast(Method[P], wrapper)


def _fingerprint(request: Request) -> str:
    body = json.dumps(request.data, sort_keys=True, default=str)
    text = f"{request.method}\n{request.get_full_path()}\n{body}"
    return hashlib.sha256(text.encode()).hexdigest()
