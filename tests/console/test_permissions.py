"""Who may do what: the whole matrix, and that nobody gets around it."""

from __future__ import annotations

import pytest

from console.actors import Actor, allowed, require
from console.errors import NotAllowed
from console.models import User
from console.rules.permissions import ACTIONS, SCOPES

EVERYBODY = "dsbav"
# d = data scientist, s = SRE, b = business owner, a = platform admin, v = viewer
MATRIX = {
    "read": EVERYBODY,
    "model.create": "da",
    "model.change": "da",
    "upload.create": "da",
    "version.create": "da",
    "version.archive": "da",
    "version.try": "dsba",
    "plan.build": "sa",
    "load_test.run": "dsa",
    "allow_load_test": "sa",
    "contract.propose": "dsba",
    "contract.withdraw": "dsba",
    "contract.sign": "dsba",
    "release.request": "dsa",
    "release.decide": "dsba",
    "deployment.create": "sa",
    "deployment.remove": "sa",
    "split.change": "sa",
    "endpoint.rollback": "sa",
    "endpoint.mode": "sa",
    "node.register": "sa",
    "node.cordon": "sa",
    "environment.change": "a",
    "job.manage_own": EVERYBODY,
    "job.manage": "sa",
    "key.manage_own": EVERYBODY,
    "token.manage_own": EVERYBODY,
    "user.manage": "a",
    "audit.read": EVERYBODY,
}
ROLES = {
    "d": "data_scientist",
    "s": "sre",
    "b": "business_owner",
    "a": "platform_admin",
    "v": "viewer",
}


def person(*roles: str, active: bool = True) -> User:
    return User(username="somebody", roles=list(roles), is_active=active)


def test_the_matrix_knows_every_action() -> None:
    assert set(MATRIX) == set(ACTIONS)


@pytest.mark.parametrize("action", MATRIX)
@pytest.mark.parametrize("letter", ROLES)
def test_each_role_may_what_the_matrix_says_and_nothing_else(action: str, letter: str) -> None:
    actor = Actor(user=person(ROLES[letter]), source="test")
    may = letter in MATRIX[action]
    assert allowed(actor, action) == may
    if not may:
        with pytest.raises(NotAllowed) as refused:
            require(actor, action)
        assert "It takes one of these roles" in refused.value.hint


@pytest.mark.parametrize("action", MATRIX)
def test_whoever_was_deactivated_may_nothing(action: str) -> None:
    actor = Actor(user=person(*ROLES.values(), active=False), source="test")
    assert not allowed(actor, action)


@pytest.mark.parametrize("action", MATRIX)
def test_a_token_may_what_its_scopes_say_of_what_its_owner_may(action: str) -> None:
    needed = ACTIONS[action].scope
    assert needed in SCOPES
    for owner in (person("platform_admin"), person("viewer")):
        for scope in SCOPES:
            actor = Actor(user=owner, source="test", scopes=frozenset({scope}))
            full = Actor(user=owner, source="test")
            assert allowed(actor, action) == (scope == needed and allowed(full, action))


def test_a_token_that_lacks_its_scope_is_told_which() -> None:
    actor = Actor(user=person("sre"), source="test", scopes=frozenset({"read"}))
    with pytest.raises(NotAllowed) as refused:
        require(actor, "split.change")
    assert refused.value.code == "scope_missing"
    assert "operate" in refused.value.message
