"""What every door asks before its view: may this person do this, here?

Services ask again, and know more (seats, parts, policies). The doors ask first so that nobody is
told how to mend a request that they may not make, and so that no page or API method can forget to.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from console.actors import ANY_TEAM, Actor, Somewhere, require
from console.rules.doors import OPEN, OWN
from console.rules.permissions import ACTIONS


@cache
def page_acts() -> dict[str, str]:
    """Name of a page's address → the action that sending its form is, of all packages."""
    acts: dict[str, str] = {}
    for table in settings.PAGE_ACTS:
        acts |= import_string(table)
    return acts


def require_for_page(actor: Actor, view_name: str, route: str, values: Mapping[str, Any]) -> None:
    """Raise NotAllowed unless the actor may send the form of this page."""
    action = page_acts().get(view_name, OWN)
    if action not in (OWN, OPEN):
        require_at(actor, action, route, values)


def require_at(actor: Actor, action: str, route: str, values: Mapping[str, Any]) -> None:
    """Raise NotAllowed unless the actor may do the action at this address.

    Where the address names a model that they may see, roles held in other teams do not count;
    one that is not there or not theirs to see is left to the view's 404. One query, and only for
    people whose global roles do not do.
    """
    require(actor, action)
    rule = ACTIONS[action]
    if actor.is_system or actor.user.is_superuser or not rule.roles or not rule.per_team:
        return
    if not actor.user.has_role(*rule.roles):
        require(actor, action, _team_at(actor, route, values))


def _team_at(actor: Actor, route: str, values: Mapping[str, Any]) -> int | Somewhere | None:
    for function in settings.TEAM_OF_ADDRESS:
        found: int | Somewhere | None = import_string(function)(actor.user, route, values)
        if found is not ANY_TEAM:
            return found
    return ANY_TEAM
