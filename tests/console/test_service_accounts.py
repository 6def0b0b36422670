"""Programs' accounts: what they may do, and what takes a person."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from console.actors import allowed
from console.errors import Conflict, CovenantError, NotAllowed, NotFound
from console.models import ApiToken, AuditEntry, Notice, User
from console.rules.permissions import ACTIONS
from console.services.keys import enrol_key
from console.services.people import reset_password
from console.services.service_accounts import (
    change_service_account,
    create_service_account,
    disable_service_account,
    enable_service_account,
)
from console.services.teams import create_team, remove_member
from console.services.tokens import (
    authenticate_token,
    create_account_token,
    create_token,
    revoke_token,
    warn_of_expiring_tokens,
)
from models_registry.services.catalog import assign_seat, register_model
from models_registry.services.contracts import sign_contract
from tests.factories import PASSWORD, People, actor, make_contract, make_model

pytestmark = pytest.mark.django_db


@pytest.fixture
def bot(persons: People) -> User:
    for name in ("Risk", "Credit"):
        create_team(name=name, actor=actor(persons.ada))
    return create_service_account(
        username="ci-fraud", team="risk", roles=["data_scientist", "sre"], actor=actor(persons.ada)
    )


def test_a_machine_puts_its_name_to_nothing_whatever_its_roles(persons: People, bot: User) -> None:
    User.objects.filter(pk=bot.pk).update(is_superuser=True)
    bot.refresh_from_db()
    machine = actor(bot)
    kept = {name for name, rule in ACTIONS.items() if rule.persons_only}
    assert kept >= {
        "contract.sign",
        "release.decide",
        "release.break_glass",
        "key.manage_own",
        "token.manage_own",
        "user.manage",
    }
    assert not any(allowed(machine, action) for action in kept)
    model = make_model()
    contract = make_contract(model, state="proposed")
    for act in (
        lambda: sign_contract(contract=contract, envelope={}, actor=machine),
        lambda: enrol_key(name="x", public_key="", origin="cli", password=None, actor=machine),
        lambda: create_token(name="x", scopes=["read"], actor=machine),
    ):
        with pytest.raises(NotAllowed) as refused:
            act()
        assert refused.value.code == "person_needed"
        assert "it takes a person" in refused.value.message


def test_a_machine_sits_in_no_seat_and_owns_no_model(persons: People, bot: User) -> None:
    for act in (
        lambda: assign_seat(
            model=make_model(seats=False), seat="sre", user=bot, actor=actor(persons.ada)
        ),
        lambda: register_model(name="churn_model", owner=bot, actor=actor(persons.ada)),
    ):
        with pytest.raises(CovenantError) as refused:
            act()
        assert refused.value.code == "person_needed"


def test_a_machine_signs_in_nowhere(persons: People, bot: User) -> None:
    bot.set_password(PASSWORD)
    bot.save()
    answer = Client().post("/sign-in/", {"username": "ci-fraud", "password": PASSWORD})
    assert answer.status_code == 422
    body = {"name": "x", "username": "ci-fraud", "password": PASSWORD}
    assert APIClient().post("/api/v1/tokens/", body, format="json").status_code == 403
    with pytest.raises(NotFound):
        reset_password(username="ci-fraud", actor=actor(persons.ada))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"roles": ["platform_admin"]}, "role_not_for_machines"),
        ({"roles": ["business_owner"]}, "role_not_for_machines"),
        ({"roles": ["king"]}, "unknown_role"),
        ({"team": "none"}, "unknown_team"),
        ({"username": "dana"}, "name_taken"),
        ({"username": "no spaces"}, "invalid_input"),
    ],
)
def test_what_a_service_account_may_not_be(
    persons: People, bot: User, fields: dict[str, Any], code: str
) -> None:
    wanted = {"username": "other", "team": "risk", "roles": ["sre"], **fields}
    with pytest.raises(CovenantError) as refused:
        create_service_account(**wanted, actor=actor(persons.ada))
    assert refused.value.code == code


def test_its_tokens_are_made_by_admins_and_end_with_it(persons: People, bot: User) -> None:
    ada = actor(persons.ada)
    for scopes in (["sign"], ["admin"], []):
        with pytest.raises(CovenantError) as refused:
            create_account_token(username="ci-fraud", name="x", scopes=scopes, actor=ada)
        assert refused.value.code == "bad_scope"
    with pytest.raises(NotAllowed):
        create_account_token(
            username="ci-fraud", name="x", scopes=["read"], actor=actor(persons.dana)
        )
    _, clear = create_account_token(username="ci-fraud", name="x", scopes=["write"], actor=ada)
    assert authenticate_token(clear) is not None
    disable_service_account(username="ci-fraud", reason="leaked", actor=ada)
    assert authenticate_token(clear) is None
    with pytest.raises(Conflict):
        create_account_token(username="ci-fraud", name="x", scopes=["read"], actor=ada)
    enable_service_account(username="ci-fraud", actor=ada)
    assert authenticate_token(clear) is None
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"service_account.create", "service_account.disable", "token.create"} <= actions


def test_it_belongs_to_one_team(persons: People, bot: User) -> None:
    ada = actor(persons.ada)
    with pytest.raises(Conflict) as refused:
        remove_member(slug="risk", username="ci-fraud", actor=ada)
    assert refused.value.code == "owner_team"
    change_service_account(
        username="ci-fraud", display_name="CI", team="credit", roles=["viewer"], actor=ada
    )
    assert [(m.team.slug, m.roles) for m in bot.memberships.all()] == [("credit", ["viewer"])]


def test_owners_are_told_of_tokens_that_end_within_a_week_once(persons: People, bot: User) -> None:
    own, _ = create_token(name="laptop", scopes=["read"], actor=actor(persons.dana), days=90)
    short, _ = create_token(name="short", scopes=["read"], actor=actor(persons.dana), days=5)
    machine, _ = create_account_token(
        username="ci-fraud", name="ci", scopes=["read"], days=90, actor=actor(persons.ada)
    )
    ApiToken.objects.filter(pk__in=[own.pk, machine.pk]).update(
        created_at=timezone.now() - timedelta(days=84),
        expires_at=timezone.now() + timedelta(days=6),
    )
    assert warn_of_expiring_tokens() == 2
    assert warn_of_expiring_tokens() == 0
    told = {notice.recipient.username: notice.data["name"] for notice in Notice.objects.all()}
    assert told == {"dana": "laptop", "ada": "ci"}
    revoke_token(token_id=own.pk, actor=actor(persons.dana))
    assert Notice.objects.get(recipient=persons.dana).ended_at is not None
    assert short.expires_at < timezone.now() + timedelta(days=7)


def test_service_accounts_by_the_api(
    persons: People, bot: User, api: Callable[[User], APIClient]
) -> None:
    client = api(persons.ada)
    body = {"username": "nightly", "team": "risk", "roles": ["data_scientist"]}
    made = client.post("/api/v1/service-accounts/", body, format="json")
    assert made.json() == {**body, "display_name": "", "active": True}
    path = "/api/v1/service-accounts/nightly/"
    changed = client.patch(path, {"roles": []}, format="json").json()
    assert (changed["team"], changed["roles"]) == ("risk", [])
    token = client.post(f"{path}tokens/", {"name": "x", "scopes": ["read"]}, format="json")
    assert token.status_code == 201
    assert authenticate_token(token.json()["token"]) is not None
    listed = client.get(f"{path}tokens/").json()["results"]
    assert [(one["name"], one["owner"]) for one in listed] == [("x", "nightly")]
    assert client.post(f"{path}disable/", {}, format="json").status_code == 422
    done = client.post(f"{path}disable/", {"reason": "old"}, format="json")
    assert done.json()["active"] is False
    assert client.post(f"{path}enable/", {}, format="json").json()["active"] is True
    for user in (persons.dana, persons.sam, persons.vic):
        assert api(user).get(path).status_code == 403
        assert api(user).post(f"{path}tokens/", {}, format="json").status_code == 403
    assert client.get("/api/v1/people/nightly/").status_code == 404


def test_service_accounts_by_the_pages(
    persons: People, bot: User, signed_in: Callable[[User], Client]
) -> None:
    admin = signed_in(persons.ada)
    path = "/settings/service-accounts/ci-fraud/"
    made = admin.post(f"{path}tokens/", {"name": "ci", "scopes": ["read"], "days": 30})
    assert (made.status_code, made["Cache-Control"]) == (201, "no-store")
    assert made.context["clear"] in made.content.decode()
    assert made.context["clear"] not in admin.get(path).content.decode()
    bad = {
        "name": "x",
        "issuer": "http://x.example.com",
        "audience": "a",
        "claims": "{",
        "scopes": ["read"],
    }
    assert admin.post(f"{path}workloads/", bad).status_code == 422
    good = {**bad, "issuer": "https://x.example.com", "claims": '{"sub": "a:*"}'}
    assert admin.post(f"{path}workloads/", good).status_code == 302
    assert "https://x.example.com" in admin.get(path).content.decode()
    token = ApiToken.objects.get()
    assert admin.post(f"/settings/people/ci-fraud/tokens/{token.pk}/revoke/").status_code == 302
    assert signed_in(persons.vic).get(path).status_code == 403
    assert signed_in(persons.vic).get("/settings/service-accounts/").status_code == 403
