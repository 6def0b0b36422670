"""Who calls the API: a session, or a token with scopes; and the actor made of it."""

from __future__ import annotations

from django.http import HttpRequest
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from console.actors import Actor
from console.models import ApiToken, User
from console.services.tokens import authenticate_token


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Token …`"""

    keyword = "Token"

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        clear = token_of(request.headers.get("Authorization", ""))
        if clear is None:
            return None
        token = authenticate_token(clear, address=request.META.get("REMOTE_ADDR", ""))
        if token is None:
            raise AuthenticationFailed(
                "This token is unknown, expired or revoked. Create another under Settings.",
                code="bad_token",
            )
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return self.keyword


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "console.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`Token <token>`; tokens are made under Settings.",
        }


def token_of(header: str, *, keywords: tuple[str, ...] = ("token",)) -> str | None:
    """The clear text of an Authorization header's token; None when it names none."""
    keyword, _, clear = header.strip().partition(" ")
    return clear.strip() if keyword.lower() in keywords else None


def actor_of(request: HttpRequest | Request) -> Actor:
    """The acting person of a page's or an API view's request, with the token's scopes."""
    token = getattr(request, "auth", None)
    user = request.user
    if not isinstance(user, User):
        raise AuthenticationFailed("Sign in first.", code="not_authenticated")
    return Actor(
        user=user,
        source="api" if isinstance(request, Request) else "page",
        request_id=getattr(request, "request_id", "")
        or getattr(getattr(request, "_request", None), "request_id", ""),
        scopes=frozenset(token.scopes) if isinstance(token, ApiToken) else None,
    )


def user_of(request: HttpRequest | Request) -> User:
    """The person who asks: for whom selectors look things up."""
    return actor_of(request).user
