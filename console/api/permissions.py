"""Who may call an API method, told before its body is read."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request

from console.api.authentication import actor_of
from console.selectors.doors import require_at


class MayAct(IsAuthenticated):
    """Signed in, with the role and scope of the action that the view names for the method.

    A view says `required_actions = {"POST": "model.create"}`; reading needs `read`. The service
    checks again, and knows more (seats, ownership): this is so that nobody is told how to mend a
    request that they may not make.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        if not super().has_permission(request, view):
            return False
        actions: dict[str, str] = getattr(view, "required_actions", {})
        reads = request.method in {"GET", "HEAD", "OPTIONS"}
        action = actions.get(request.method or "", "read" if reads else "")
        if action:
            match = request.resolver_match
            route, values = (match.route, match.kwargs) if match else ("", {})
            require_at(actor_of(request), action, route, values)
        return True
