"""How the registry's pages tell a person that a service refused."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest

from console.actors import Actor, allowed
from console.api.problems import remember_refusal
from console.errors import Conflict, CovenantError, Invalid, NotAllowed
from models_registry.models import RegisteredModel
from models_registry.services.catalog import require_part_in

REFUSED = (Invalid, Conflict)


def tell(request: HttpRequest, error: CovenantError) -> None:
    """The refusal as a message on the next page."""
    remember_refusal(request, error)
    messages.error(request, f"{error.message} {error.hint}".strip())


def may(actor: Actor, action: str, model: RegisteredModel) -> bool:
    """Whether to offer an act on the model: the role permits it and the person has a part in it.

    The service decides again; this only keeps buttons away that would be refused.
    """
    if not allowed(actor, action, model.team_id):
        return False
    try:
        require_part_in(model, actor)
    except NotAllowed:
        return False
    return True


def wants_fragment(request: HttpRequest) -> bool:
    """Whether htmx asks for a part of the page."""
    return bool(request.headers.get("HX-Request"))
