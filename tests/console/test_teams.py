"""Teams: roles that hold for their models, and what keeps them from going."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from console.errors import Conflict, CovenantError, Invalid, NotFound
from console.models import AuditEntry, Team, TeamMembership, User
from console.services import teams
from console.services.people import change_roles
from models_registry.models import RegisteredModel
from models_registry.services.catalog import assign_seat, change_model
from tests.factories import People, actor, make_model, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def risk(persons: People) -> Team:
    """A team in which vic, who may only read elsewhere, is an SRE."""
    team = teams.create_team(name="Risk models", description="Fraud", actor=actor(persons.ada))
    teams.set_member(slug=team.slug, username="vic", roles=["sre"], actor=actor(persons.ada))
    return team


@pytest.fixture
def model(risk: Team) -> RegisteredModel:
    made = make_model(seats=False)
    RegisteredModel.objects.filter(pk=made.pk).update(team=risk)
    return RegisteredModel.objects.get(pk=made.pk)


def test_a_role_in_the_team_is_enough_for_a_seat_of_its_models_alone(
    persons: People, model: RegisteredModel
) -> None:
    ada = actor(persons.ada)
    assign_seat(model=model, seat="sre", user=persons.vic, actor=ada)
    other = make_model("churn_model", seats=False)
    with pytest.raises(Invalid) as refused:
        assign_seat(model=other, seat="sre", user=persons.vic, actor=ada)
    assert refused.value.code == "role_missing"
    entry = AuditEntry.objects.get(action="model.assign_seat")
    assert entry.after == {"seat": "sre", "user": "vic"}


def test_what_a_seat_takes_is_not_taken_away_before_it_is_handed_over(
    persons: People, risk: Team, model: RegisteredModel
) -> None:
    ada = actor(persons.ada)
    assign_seat(model=model, seat="sre", user=persons.vic, actor=ada)
    for act in (
        lambda: teams.set_member(slug=risk.slug, username="vic", roles=[], actor=ada),
        lambda: teams.remove_member(slug=risk.slug, username="vic", actor=ada),
        lambda: change_model(model=model, changes={"team": None}, actor=ada),
    ):
        with pytest.raises(Conflict) as refused:
            act()
        assert refused.value.code == "seats_depend"
        assert "fraud_detector" in refused.value.message
    # The role for everything will do as well.
    change_roles(username="vic", roles=["sre"], actor=ada)
    teams.remove_member(slug=risk.slug, username="vic", reason="moved", actor=ada)
    with pytest.raises(Conflict):
        change_roles(username="vic", roles=["viewer"], actor=ada)
    assign_seat(model=model, seat="sre", user=persons.sam, actor=ada)
    change_roles(username="vic", roles=["viewer"], actor=ada)
    assert not TeamMembership.objects.filter(user=persons.vic).exists()


def test_a_team_goes_when_nothing_belongs_to_it(persons: People, model: RegisteredModel) -> None:
    ada = actor(persons.ada)
    with pytest.raises(Conflict) as refused:
        teams.delete_team(slug="risk-models", reason="x", actor=ada)
    assert refused.value.code == "team_in_use"
    assert "the model fraud_detector" in refused.value.message
    change_model(model=model, changes={"team": None}, actor=ada)
    teams.delete_team(slug="risk-models", reason="merged", actor=ada)
    entry = AuditEntry.objects.get(action="team.delete")
    assert entry.before["members"] == {"vic": ["sre"]}
    with pytest.raises(NotFound):
        teams.change_team(slug="risk-models", name="x", description="", actor=ada)


@pytest.mark.parametrize(
    ("act", "code"),
    [
        ({"username": "sam", "roles": ["platform_admin"]}, "role_is_global"),
        ({"username": "sam", "roles": ["king"]}, "unknown_role"),
        ({"username": "nobody", "roles": []}, "not_found"),
        ({"username": "system", "roles": []}, "not_found"),
        ({"username": "gone", "roles": []}, "deactivated"),
    ],
)
def test_who_joins_no_team(persons: People, risk: Team, act: dict[str, Any], code: str) -> None:
    gone = make_user("gone")
    User.objects.filter(pk=gone.pk).update(is_active=False)
    with pytest.raises(CovenantError) as refused:
        teams.set_member(slug=risk.slug, **act, actor=actor(persons.ada))
    assert refused.value.code == code


def test_teams_by_the_api(persons: People, api: Callable[[User], APIClient]) -> None:
    client = api(persons.ada)
    made = client.post("/api/v1/teams/", {"name": "Credit"}, format="json")
    assert (made.status_code, made.json()["slug"]) == (201, "credit")
    twice = client.post("/api/v1/teams/", {"name": "Credit"}, format="json")
    assert (twice.status_code, twice.json()["code"]) == (409, "name_taken")
    member = "/api/v1/teams/credit/members/sam/"
    found = client.put(member, {"roles": ["sre", "data_scientist"]}, format="json").json()
    assert [(one["username"], one["roles"]) for one in found["members"]] == [
        ("sam", ["data_scientist", "sre"])
    ]
    renamed = client.patch("/api/v1/teams/credit/", {"name": "Credit risk"}, format="json")
    assert renamed.json()["name"] == "Credit risk"
    assert api(persons.dana).put(member, {"roles": []}, format="json").status_code == 403
    assert client.delete(member, {"reason": "x"}, format="json").json()["members"] == []
    assert client.delete("/api/v1/teams/credit/", {}, format="json").status_code == 204
    assert api(persons.vic).get("/api/v1/teams/").json()["results"] == []


def test_teams_by_the_pages(
    persons: People, model: RegisteredModel, signed_in: Callable[[User], Client]
) -> None:
    admin = signed_in(persons.ada)
    assert admin.post("/settings/new-team/", {"name": "Credit"}).status_code == 302
    added = {"username": "sam", "roles": ["data_scientist"]}
    assert admin.post("/settings/teams/credit/members/", added).status_code == 302
    wrong = admin.post("/settings/teams/credit/members/", {"username": "nobody"})
    assert wrong.status_code == 422
    assert "There is nobody with the name nobody" in wrong.content.decode()
    page = signed_in(persons.vic).get("/settings/teams/credit/").content.decode()
    assert "Sam" in page
    assert 'action="/settings/teams/credit/members/"' not in page
    assert "fraud_detector" in admin.get("/teams/risk-models/models/").content.decode()
    refused = admin.post("/settings/teams/risk-models/delete/", {"reason": "x"}, follow=True)
    assert "the model fraud_detector" in refused.content.decode()


def test_the_list_of_people_asks_as_little_of_many_as_of_few(
    persons: People, model: RegisteredModel, signed_in: Callable[[User], Client]
) -> None:
    assign_seat(model=model, seat="sre", user=persons.vic, actor=actor(persons.ada))
    client = signed_in(persons.ada)
    client.get("/settings/people/")
    with CaptureQueriesContext(connection) as few:
        page = client.get("/settings/people/")
    assert "Risk models</a>: SRE" in page.content.decode()
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into console_user (username, display_name, email, roles, kind, password,"
            " is_superuser, is_active, language, date_joined)"
            " select 'many' || lpad(n::text, 5, '0'), 'Many', '', '{}', 'person', '!', false, true,"
            " '', now() from generate_series(0, 9999) n"
        )
        cursor.execute(
            "insert into console_teammembership (team_id, user_id, roles, since)"
            " select %s, id, '{sre}', now() from console_user where username like 'many%%'",
            [model.team_id],
        )
    with CaptureQueriesContext(connection) as many:
        page = client.get("/settings/people/?role=sre&state=active")
    assert len(page.context["people"]) == 50
    assert len(many) <= len(few)
    more = client.get("/settings/people/" + page.context["next_url"])
    assert len(more.context["people"]) == 50
    found = client.get("/settings/people/?q=many09999").context["people"]
    assert [row.person.username for row in found] == ["many09999"]


def test_seats_of_models_that_do_not_exist_for_a_reader_are_not_told(
    persons: People, model: RegisteredModel, api: Callable[[User], APIClient]
) -> None:
    assign_seat(model=model, seat="sre", user=persons.vic, actor=actor(persons.ada))
    RegisteredModel.objects.update(visibility="team", owner=persons.ada)
    seen = api(persons.vic).get("/api/v1/people/vic/").json()
    assert seen["seats"] == [{"model": "fraud_detector", "seat": "sre"}]
    assert seen["teams"] == [{"team": "risk-models", "roles": ["sre"]}]
    assert api(persons.bea).get("/api/v1/people/vic/").json()["seats"] == []
