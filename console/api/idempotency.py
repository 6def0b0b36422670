"""`Idempotency-Key`: a client's retry of a write has one effect and one answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.db import IntegrityError, transaction
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.errors import Conflict, Invalid
from console.models import IdempotentRequest

P = ParamSpec("P")
Method = Callable[Concatenate[Any, Request, P], Response]


def idempotent(method: Method[P]) -> Method[P]:
    """Wrap a write method of an APIView: the same key and body give the first answer again.

    The key's row is claimed before the work, so that two at once are one; an error releases it.
    Raises Invalid for a key over 200 characters, Conflict for a key used with another body.
    """

    @wraps(method)
    def wrapper(view: APIView, request: Request, *args: P.args, **kwargs: P.kwargs) -> Response:
        key = request.headers.get("Idempotency-Key", "")
        if not key:
            return method(view, request, *args, **kwargs)
        if len(key) > 200:
            raise Invalid("Idempotency-Key is longer than 200 characters.", code="bad_key")
        fingerprint = _fingerprint(request)
        try:
            with transaction.atomic():
                claim = IdempotentRequest.objects.create(
                    user_id=request.user.pk, key=key, fingerprint=fingerprint
                )
        except IntegrityError:
            return _earlier(request, key, fingerprint)
        try:
            response = method(view, request, *args, **kwargs)
        except BaseException:
            claim.delete()
            raise
        claim.status = response.status_code
        claim.body = json.loads(json.dumps(response.data, default=str))
        claim.save(update_fields=["status", "body"])
        return response

    return wrapper


def _earlier(request: Request, key: str, fingerprint: str) -> Response:
    earlier = IdempotentRequest.objects.get(user_id=request.user.pk, key=key)
    if earlier.fingerprint != fingerprint:
        raise Conflict(
            "This Idempotency-Key was used for another request.", code="idempotency_key_reused",
            hint="Use a new key for each new act.",
        )
    if not earlier.status:
        raise Conflict(
            "The first request with this Idempotency-Key is still under way.",
            code="request_under_way", hint="Try again in a second.",
        )
    return Response(earlier.body, status=earlier.status, headers={"Idempotent-Replayed": "true"})


def _fingerprint(request: Request) -> str:
    text = f"{request.method}\n{request.path}\n{json.dumps(request.data, sort_keys=True, default=str)}"
    return hashlib.sha256(text.encode()).hexdigest()
