"""What each request carries, and how an error that no view caught is explained."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, BinaryIO

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.models import AnonymousUser
from django.http import FileResponse, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url
from django.utils.decorators import sync_and_async_middleware
from django.utils.functional import SimpleLazyObject
from django_htmx.http import HttpResponseClientRedirect
from whitenoise.middleware import WhiteNoiseMiddleware

from console.api.authentication import actor_of
from console.errors import NotAllowed, Unavailable
from console.metrics import count_request
from console.models import User
from console.selectors.doors import require_for_page
from console.services.sign_ins import is_admitted
from console.sessions import MEANS
from console.views.errors import explain, explained

log = logging.getLogger(__name__)
REQUEST_ID = re.compile(r"^[A-Za-z0-9._-]{1,64}$")
FILE_BLOCK = 64 * 1024
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

GetResponse = Callable[[HttpRequest], Any]


@sync_and_async_middleware
def request_context(get_response: GetResponse) -> Callable[[HttpRequest], Any]:
    """Keep the caller's X-Request-ID or make one, give it back, and count the request."""

    def begin(request: HttpRequest) -> float:
        given = request.headers.get("X-Request-ID", "")
        request_id = given if REQUEST_ID.match(given) else uuid.uuid4().hex
        request.request_id = request_id  # type: ignore[attr-defined]
        return time.monotonic()

    def end(request: HttpRequest, response: HttpResponseBase, began: float) -> None:
        response["X-Request-ID"] = request.request_id  # type: ignore[attr-defined]
        count_request(request, response, time.monotonic() - began)

    if iscoroutinefunction(get_response):

        async def handle(request: HttpRequest) -> HttpResponseBase:
            began = begin(request)
            response: HttpResponseBase = await get_response(request)
            end(request, response, began)
            return response

        return handle

    def handle_sync(request: HttpRequest) -> HttpResponseBase:
        began = begin(request)
        response: HttpResponseBase = get_response(request)
        end(request, response, began)
        return response

    return handle_sync


@sync_and_async_middleware
def static_files(get_response: GetResponse) -> Callable[[HttpRequest], Any]:
    """WhiteNoise's static files without its blocking call: it would put all requests in threads."""
    files = WhiteNoiseMiddleware(lambda request: None)

    if iscoroutinefunction(get_response):

        async def handle(request: HttpRequest) -> HttpResponseBase:
            if not request.path_info.startswith(files.static_prefix):
                answer: HttpResponseBase = await get_response(request)
                return answer
            found: HttpResponseBase | None = await sync_to_async(files, thread_sensitive=False)(
                request
            )
            if found is None:
                missing: HttpResponseBase = await get_response(request)
                return missing
            if isinstance(found, FileResponse) and found.file_to_stream:
                found.streaming_content = _blocks(found.file_to_stream)
            return found

        return handle

    def handle_sync(request: HttpRequest) -> HttpResponseBase:
        found: HttpResponseBase | None = files(request)
        return get_response(request) if found is None else found

    return handle_sync


class SignInRequired(LoginRequiredMiddleware):
    """Every page needs a signed-in person unless it is marked `login_not_required`.

    A fragment asked for by htmx sends the whole page to the sign-in, instead of putting the
    sign-in page into a corner of it.
    """

    def process_view(
        self,
        request: HttpRequest,
        view_func: Callable[..., Any],
        view_args: tuple[Any, ...],
        view_kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        if not getattr(view_func, "login_required", True):
            # Without a look at the session: what is open must answer when the database is away.
            return None
        refused = super().process_view(request, view_func, view_args, view_kwargs)
        if refused is not None and request.headers.get("HX-Request"):
            return HttpResponseClientRedirect(resolve_url(self.get_login_url(view_func)))
        return refused or _refused_act(request, view_kwargs)


def _refused_act(request: HttpRequest, values: dict[str, Any]) -> HttpResponse | None:
    """The refusal of a form that the person may not send; the API has its own (`MayAct`)."""
    match = request.resolver_match
    if request.method in SAFE or match is None or match.view_name.startswith("api:"):
        return None
    try:
        require_for_page(actor_of(request), match.view_name, match.route, values)
    except NotAllowed as error:
        return explain(request, error)
    return None


class StrongSessions:
    """Where the installation asks for second factors, a session without one is nobody's.

    So the policy holds at once, for sessions that began before it was set as well.
    """

    async_capable = True
    sync_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        if settings.CONFIG.sign_in.require_second_factor != "none":
            user, auser = request.user, request.auser

            async def admitted() -> User | AnonymousUser:
                return await sync_to_async(_admitted)(request, await auser())

            request.user = SimpleLazyObject(lambda: _admitted(request, user))  # type: ignore[assignment]
            request.auser = admitted
        response: HttpResponse | Awaitable[HttpResponse] = self.get_response(request)
        return response


def _admitted(request: HttpRequest, user: User | AnonymousUser) -> User | AnonymousUser:
    if not isinstance(user, User) or is_admitted(user, str(request.session.get(MEANS, ""))):
        return user
    return AnonymousUser()


class explain_errors:
    """Turn an error that a page did not handle into a page (or a problem document) that explains.

    A CovenantError keeps its status and hint; a database that is away is a 503 that says when to
    come back, since it recovers by itself.
    """

    async_capable = True
    sync_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        response: HttpResponse | Awaitable[HttpResponse] = self.get_response(request)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if error := explained(exception):
            if isinstance(error, Unavailable):
                log.warning("%s %s: %s", request.method, request.path, exception)
            return explain(request, error)
        return None


async def _blocks(file: BinaryIO) -> AsyncIterator[bytes]:
    read = sync_to_async(file.read, thread_sensitive=False)
    while block := await read(FILE_BLOCK):
        yield block
