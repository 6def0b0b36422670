"""Who may do what: the whole matrix, and that nobody gets around it."""

from __future__ import annotations

from typing import Any

import pytest

from console.actors import Actor, allowed, require
from console.errors import NotAllowed
from console.models import Team, TeamMembership, User
from console.rules.permissions import ACTIONS, SCOPES

# A refusal names whom to ask.
pytestmark = pytest.mark.django_db

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
    "contract.draft": "dsba",
    "contract.comment": "dsba",
    "contract.propose": "dsba",
    "contract.withdraw": "dsba",
    "contract.sign": "dsba",
    "release.request": "dsa",
    "release.decide": "dsba",
    "release.break_glass": "sa",
    "release.review": "sa",
    "deployment.create": "sa",
    "deployment.remove": "sa",
    "split.change": "sa",
    "endpoint.rollback": "sa",
    "endpoint.mode": "sa",
    "rollback_policy.change": "sa",
    "rollout.start": "sa",
    "rollout.control": "sa",
    "incident.handle": "dsba",
    "alert.handle": "dsba",
    "alert.silence": "sa",
    "alert_rule.change": "sa",
    "alert_channel.manage": "sa",
    "on_call.manage": "sa",
    "maintenance.propose": "dsba",
    "maintenance.agree": "dsba",
    "sla.exclude": "dsba",
    "sla.share": "sba",
    "sla.subscribe": EVERYBODY,
    "telemetry.send": "dsa",
    "telemetry.change": "dsa",
    "diagnosis.run": "dsa",
    "access.change": "sa",
    "experiment.manage": "dsa",
    "caller.manage": "sa",
    "gateway.register": "sa",
    "node.register": "sa",
    "node.cordon": "sa",
    "node.verify": "sa",
    "statistics.manage": "a",
    "environment.change": "a",
    "environment.freeze": "sa",
    "job.manage_own": EVERYBODY,
    "job.manage": "sa",
    "key.manage_own": EVERYBODY,
    "token.manage_own": EVERYBODY,
    "second_factor.manage_own": EVERYBODY,
    "notice.manage_own": EVERYBODY,
    "user.manage": "a",
    "team.manage": "a",
    "service_account.manage": "a",
    "audit.read": EVERYBODY,
    "audit.export": EVERYBODY,
    "audit.manage": "a",
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


@pytest.mark.parametrize("action", MATRIX)
def test_a_role_in_a_team_counts_for_that_team_s_models_alone(action: str) -> None:
    payments, search = (Team.objects.create(name=n, slug=n) for n in ("payments", "search"))
    rule = ACTIONS[action]
    for letter, role in ROLES.items():
        user = User.objects.create(username=f"in-{letter}")
        TeamMembership.objects.create(team=payments, user=user, roles=[role])
        actor = Actor(user=user, source="test")
        everybody = MATRIX[action] == EVERYBODY
        counts = letter in MATRIX[action] and (rule.per_team or everybody)
        assert allowed(actor, action, payments.pk) == counts
        assert allowed(actor, action) == counts
        # A model of another team, or of none, is none of theirs.
        assert allowed(actor, action, search.pk) == everybody
        assert allowed(actor, action, None) == everybody


def test_roles_of_teams_are_asked_for_once(django_assert_num_queries: Any) -> None:
    team = Team.objects.create(name="payments", slug="payments")
    user = User.objects.create(username="tim", roles=["viewer"])
    TeamMembership.objects.create(team=team, user=user, roles=["sre"])
    with django_assert_num_queries(1):
        assert user.roles_in(team.pk) == {"viewer", "sre"}
        assert user.roles_in(team.pk + 1) == user.roles_in(None) == {"viewer"}
        assert user.roles_anywhere == {"viewer", "sre"}
    TeamMembership.objects.all().delete()
    user.refresh_from_db()
    assert user.roles_anywhere == {"viewer"}


def test_a_refusal_says_which_roles_would_do_where_and_whom_to_ask() -> None:
    team = Team.objects.create(name="Payments", slug="payments")
    User.objects.create(username="ada", roles=["platform_admin"])
    actor = Actor(user=User.objects.create(username="dana", roles=["data_scientist"]), source="t")
    with pytest.raises(NotAllowed) as refused:
        require(actor, "split.change", team.pk)
    assert refused.value.message == "dana may not move traffic."
    assert refused.value.hint == (
        "It takes one of these roles: platform_admin, sre, for the whole installation or in the "
        "team Payments. Ask a platform admin: ada."
    )
    with pytest.raises(NotAllowed, match="manage people") as refused:
        require(actor, "user.manage")
    assert "for the whole installation. Ask a platform admin: ada." in refused.value.hint
