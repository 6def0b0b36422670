"""Everybody who may come to a door, and what the table of permissions says of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.urls import reverse
from django.utils import timezone

from console.models import Role, Team, TeamMembership, User
from console.models.accounts import UserKind
from console.rules.permissions import ACTIONS, SCOPES
from console.services.tokens import issue_token
from models_registry.models import RegisteredModel
from tests import factories
from tests.structure.conftest import Address, World
from tests.structure.test_addresses import VALUES

ACTING_ROLES = (Role.DATA_SCIENTIST, Role.SRE, Role.BUSINESS_OWNER, Role.PLATFORM_ADMIN)
NOTHING = "nothing_of_the_kind"
OF_A_MODEL = frozenset(
    {"model", "release_id", "deployment_id", "incident_id", "load_test_id", "rollout_id"}
    | {"diagnosis_id"}
    | {"window_id", "exclusion_id"}
    | {"alert_id", "silence_id", "rule", "share_id"}
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: with global roles, roles in the model's team and in another, or a token."""

    name: str
    user: User | None
    roles: frozenset[str] = frozenset()
    here: frozenset[str] = frozenset()
    elsewhere: frozenset[str] = frozenset()
    scopes: frozenset[str] | None = None
    token: str = field(default="", repr=False)

    @property
    def is_machine(self) -> bool:
        return self.user is not None and self.user.kind == UserKind.SERVICE

    def is_told_apart_by(self, action: str) -> bool:
        """Where no team counts, who holds roles in teams alone is like anybody without a role.

        A token of one scope is tried where that is asked for, and where its neighbour is.
        """
        rule = ACTIONS[action]
        if self.scopes is not None and len(self.scopes) == 1:
            neighbour = SCOPES[(SCOPES.index(rule.scope) + 1) % len(SCOPES)]
            return not self.scopes.isdisjoint({rule.scope, neighbour})
        return rule.per_team or not (self.here or self.elsewhere)

    def client(self, client_class: Callable[..., Any]) -> Any:
        client = client_class(raise_request_exception=True)
        if self.token:
            client.credentials(HTTP_AUTHORIZATION=f"Token {self.token}")
        elif self.user is not None:
            client.force_login(self.user)
        return client


def callers(model: RegisteredModel) -> list[Caller]:
    """All of them; the model is put into the team `payments`."""
    team = Team.objects.create(name="Payments", slug="payments-team")
    other = Team.objects.create(name="Search", slug="search-team")
    RegisteredModel.objects.filter(pk=model.pk).update(team=team)
    persons = factories.people()
    everyone = [
        Caller(user.username, user, roles=frozenset(user.roles))
        for user in (persons.dana, persons.sam, persons.bea, persons.ada, persons.vic)
    ]
    for role in ACTING_ROLES:
        user = _member(f"team_{role.value}", team, role)
        everyone.append(Caller(user.username, user, here=frozenset({role.value})))
    stranger = _member("elsewhere", other, *ACTING_ROLES)
    everyone.append(
        Caller(
            stranger.username, stranger, elsewhere=frozenset(role.value for role in ACTING_ROLES)
        )
    )
    for scope in SCOPES:
        everyone.append(_with_token(f"token_{scope}", persons.ada, scope))
    machine = factories.make_user("ci", *(role.value for role in ACTING_ROLES))
    machine.kind = UserKind.SERVICE
    machine.save()
    everyone.append(_with_token("service_account", machine, *SCOPES))
    everyone.append(Caller("nobody", None))
    return everyone


def may(caller: Caller, action: str, address: Address) -> bool:
    """What the table says, spelled out once more: not by the code that is tested."""
    rule = ACTIONS[action]
    if caller.user is None:
        return False
    if caller.scopes is not None and rule.scope not in caller.scopes:
        return False
    if rule.persons_only and caller.is_machine:
        return False
    if not rule.roles:
        return True
    held = caller.roles
    if rule.per_team:
        held |= caller.here | (frozenset() if is_of_a_model(address) else caller.elsewhere)
    return not held.isdisjoint(rule.roles)


def is_of_a_model(address: Address) -> bool:
    """Whether the address is about one model: roles in other teams do not count there."""
    named = set(address.parameters)
    in_path = "models/" in address.route or "panels/" in address.route
    return bool(named & OF_A_MODEL) or ("name" in named and in_path)


def url_at(address: Address, world: World, **others: Any) -> str:
    """The address with the world's things in it; of what the world has none, with what is none.

    `others` stand in the place of the world's; a value of None is what is none.
    """
    given = {**world.values, **VALUES.get(address.name, {}), **others}
    nothing = {"int": 999_999_999, "uuid": uuid.UUID(int=0)}
    return reverse(
        address.name,
        kwargs={
            name: given[name] if given.get(name) is not None else nothing.get(kind, NOTHING)
            for name, kind in address.kinds.items()
        },
    )


def _member(username: str, team: Team, *roles: str) -> User:
    user = factories.make_user(username)
    TeamMembership.objects.create(team=team, user=user, roles=[str(role) for role in roles])
    return user


def _with_token(name: str, user: User, *scopes: str) -> Caller:
    expires = timezone.now() + timedelta(days=1)
    _token, clear = issue_token(owner=user, name=name, scopes=list(scopes), expires_at=expires)
    return Caller(name, user, roles=frozenset(user.roles), scopes=frozenset(scopes), token=clear)
