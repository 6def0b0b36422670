"""`GET /api/v1/events/?topics=…`: Server-Sent Events."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user
from django.contrib.auth.decorators import login_not_required
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.views.decorators.http import require_GET

from console.api.authentication import token_of
from console.api.problems import problem_page
from console.live_feed import LiveEvent, Place, Subscription, feed
from console.models import User
from console.selectors.visibility import audible_topics
from console.services.sign_ins import is_admitted
from console.services.tokens import authenticate_token
from console.sessions import MEANS

MOST_TOPICS = 50
PING_SECONDS = 15.0
RECHECK_SECONDS = 60.0
# A page reads its rows a moment before it is written out, and clocks differ a little.
SINCE_MARGIN_MS = 2_000
TOPIC = re.compile(r"^[a-z-]+(:.{1,240})?$")
EVENT_ID = re.compile(r"^\d{1,20}-\d{1,20}$")


@login_not_required
@require_GET
async def events(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """The live events of the topics asked for, as `data:` lines of JSON with `topic` and `type`.

    `Last-Event-ID` goes on from there, `since` (seconds since 1970) from then. An event of the
    type `resync` says that some may have been missed. The stream ends when its reader may no
    longer read.
    """
    if not isinstance(request, ASGIRequest):
        # Under WSGI each stream would hold a worker for as long as its page is open.
        return problem_page(
            status_code=404, code="live_events_off", detail="This server sends no live events."
        )
    reader = await _reader(request)
    if reader is None:
        return problem_page(
            status_code=401,
            code="not_authenticated",
            detail="Sign in, or send a token that is valid, to read live events.",
        )
    asked = {topic for topic in request.GET.get("topics", "").split(",") if topic}
    if len(asked) > MOST_TOPICS:
        return problem_page(
            status_code=422,
            code="too_many_topics",
            detail=f"{len(asked)} topics were asked for; {MOST_TOPICS} are the most.",
        )
    topics = await _audible(reader, {topic for topic in asked if TOPIC.match(topic)})
    return StreamingHttpResponse(
        _stream(request, topics, _place(request)),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def _place(request: ASGIRequest) -> Place:
    """Where the caller wants the stream to begin; what cannot be read is now."""
    last = request.headers.get("Last-Event-ID", "")
    if EVENT_ID.match(last):
        return Place(event_id=last)
    since = request.GET.get("since", "")
    if since.isdecimal() and len(since) <= 12:
        return Place(since_ms=max(0, int(since) * 1000 - SINCE_MARGIN_MS))
    return Place()


async def _stream(request: ASGIRequest, topics: set[str], place: Place) -> AsyncIterator[bytes]:
    checked = time.monotonic()
    async with feed().subscribe(topics, place) as subscription:
        yield _hello(subscription, place)
        while True:
            event = await subscription.next(PING_SECONDS)
            if time.monotonic() - checked > RECHECK_SECONDS:
                if not await _still_allowed(request, topics):
                    return
                checked = time.monotonic()
            yield b": ping\n\n" if event is None else _frame(event)


def _hello(subscription: Subscription, place: Place) -> bytes:
    # An id without data sets the place to resume from before any event has come.
    return f"retry: 1000\nid: {place.event_id or subscription.position}\n\n".encode()


def _frame(event: LiveEvent) -> bytes:
    place = f"id: {event.id}\n" if event.id else ""
    return f"{place}data: {event.text}\n\n".encode()


async def _still_allowed(request: ASGIRequest, topics: set[str]) -> bool:
    try:
        reader = await _reader(request)
        return reader is not None and await _audible(reader, topics) == topics
    except DatabaseError:
        # Whoever was allowed stays connected while the database is away.
        return True


@sync_to_async
def _audible(reader: User, topics: set[str]) -> set[str]:
    """Those that the reader may listen to: an inbox is its owner's, a hidden model nobody's."""
    try:
        return audible_topics(reader, topics)
    finally:
        connections.close_all()


@sync_to_async
def _reader(request: ASGIRequest) -> User | None:
    """The person behind the request's token or session, read anew; None when there is none."""
    try:
        if clear := token_of(request.headers.get("Authorization", "")):
            token = authenticate_token(clear)
            return token.user if token and "read" in token.scopes else None
        return _session_reader(request)
    finally:
        # A stream lives long: it must not keep a pooled connection.
        connections.close_all()


def _session_reader(request: ASGIRequest) -> User | None:
    # A request of its own, so that neither session nor user come from what was read before.
    fresh = HttpRequest()
    fresh.session = request.session.__class__(request.session.session_key)
    user = get_user(fresh)
    if not isinstance(user, User) or not user.is_active:
        return None
    return user if is_admitted(user, str(fresh.session.get(MEANS, ""))) else None
