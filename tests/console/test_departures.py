"""Somebody goes: everything that hangs on them is named, handed over, and ended, or nothing is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth import SESSION_KEY
from django.test import Client
from rest_framework.test import APIClient

from console.errors import Conflict, CovenantError, Invalid, NotFound
from console.models import ApiToken, AuditEntry, Notice, Session, SigningKey, TeamMembership, User
from console.services.departures import deactivate_person, reactivate_person
from console.services.invitations import invite, open_invitation
from console.services.jobs import enqueue
from console.services.teams import create_team, set_member
from console.services.tokens import authenticate_token, create_token
from models_registry.models import RegisteredModel, SeatHolder
from models_registry.services.contract_checks import verify_in_force
from models_registry.services.releases import withdraw_release
from tests.factories import (
    People,
    actor,
    make_contract,
    make_model,
    make_release,
    make_user,
    make_version,
)

pytestmark = pytest.mark.django_db
SEAT, OWNER = "seat:fraud_detector:data_scientist", "owner:fraud_detector"


@pytest.fixture
def eve(persons: People) -> User:
    """Another data scientist, without a seat."""
    return make_user("eve", "data_scientist")


@pytest.fixture
def model(persons: People) -> RegisteredModel:
    return make_model()


def test_everything_moves_and_ends_in_one_go_and_signatures_stay(
    persons: People, eve: User, model: RegisteredModel
) -> None:
    dana, ada = persons.dana, actor(persons.ada)
    contract = make_contract(model)
    team = create_team(name="Risk", actor=ada)
    set_member(slug=team.slug, username="dana", roles=["sre"], actor=ada)
    _, clear = create_token(name="ci", scopes=["read"], actor=actor(dana))
    browser = Client()
    browser.force_login(dana)

    ended = deactivate_person(
        username="dana",
        reason="left the company",
        successors={SEAT: "eve", OWNER: "eve"},
        actor=ada,
    )

    model.refresh_from_db()
    assert model.owner == eve
    assert SeatHolder.objects.get(model=model, seat="data_scientist").user == eve
    assert {duty.key for duty in ended.moved} == {SEAT, OWNER}
    assert authenticate_token(clear) is None
    assert browser.get("/jobs/").status_code == 302
    assert not Session.objects.filter(user=dana).exists()
    keys = SigningKey.objects.filter(user=dana)
    assert {(key.revocation, key.doubted_from) for key in keys} == {("left", None)}
    verify_in_force(contract)
    dana.refresh_from_db()
    assert (dana.is_active, dana.roles) == (False, [])
    assert dana.deactivated_at is not None
    assert not TeamMembership.objects.filter(user=dana).exists()
    entry = AuditEntry.objects.get(action="user.deactivate")
    assert entry.before["roles"] == ["data_scientist"]
    assert entry.before["teams"] == {"risk": ["sre"]}
    assert entry.after["handed_over"] == 2
    assert model.name not in str(entry.after), "the entry is read by who may not see the model"
    moved = AuditEntry.objects.get(action="model.assign_seat")
    assert (moved.before["user"], moved.after["user"]) == ("dana", "eve")


@pytest.mark.parametrize(
    ("successors", "code", "pointers"),
    [
        ({}, "successors_missing", {f"/successors/{SEAT}", f"/successors/{OWNER}"}),
        ({SEAT: "eve"}, "successors_missing", {f"/successors/{OWNER}"}),
        ({SEAT: "nobody", OWNER: "eve"}, "successors_missing", {f"/successors/{SEAT}"}),
        (
            {SEAT: "eve", OWNER: "eve", "seat:other:sre": "eve"},
            "successors_missing",
            {"/successors/seat:other:sre"},
        ),
        ({SEAT: "vic", OWNER: "eve"}, "successors_unfit", {f"/successors/{SEAT}"}),
        ({SEAT: "sam", OWNER: "eve"}, "successors_unfit", {f"/successors/{SEAT}"}),
        (
            {SEAT: "dana", OWNER: "dana"},
            "successors_unfit",
            {f"/successors/{SEAT}", f"/successors/{OWNER}"},
        ),
        ({SEAT: "gone", OWNER: "eve"}, "successors_unfit", {f"/successors/{SEAT}"}),
    ],
)
def test_a_missing_or_unfit_successor_stops_all_of_it(
    persons: People,
    eve: User,
    model: RegisteredModel,
    successors: dict[str, str],
    code: str,
    pointers: set[str],
) -> None:
    gone = make_user("gone", "data_scientist")
    User.objects.filter(pk=gone.pk).update(is_active=False)
    with pytest.raises(Invalid) as refused:
        deactivate_person(
            username="dana", reason="x", successors=successors, actor=actor(persons.ada)
        )
    assert refused.value.code == code
    assert {fault.pointer for fault in refused.value.errors} == pointers
    persons.dana.refresh_from_db()
    assert persons.dana.is_active
    assert not AuditEntry.objects.exists()


def test_the_last_admin_and_a_missing_reason_are_refused(persons: People) -> None:
    ada = actor(persons.ada)
    with pytest.raises(Conflict) as refused:
        deactivate_person(username="ada", reason="x", actor=ada)
    assert refused.value.code == "last_admin"
    with pytest.raises(CovenantError) as refused_too:
        deactivate_person(username="vic", reason=" ", actor=ada)
    assert refused_too.value.code == "reason_missing"
    with pytest.raises(NotFound):
        deactivate_person(username="system", reason="x", actor=ada)


def test_jobs_and_invitations_go_on_and_coming_back_gives_nothing(persons: People) -> None:
    admin = make_user("second", "platform_admin")
    invited = invite(email="new@example.com", actor=actor(admin))
    job = enqueue(kind="reconcile", subject="x", arguments={}, queue="q", actor=actor(admin))
    _, clear = create_token(name="ci", scopes=["read"], actor=actor(admin))
    ada = actor(persons.ada)
    deactivate_person(username="second", reason="left", actor=ada)
    job.refresh_from_db()
    assert job.state == "queued"
    secret = invited.link.rstrip("/").rsplit("/", 1)[1]
    assert open_invitation(secret=secret, address="x").pk == invited.invitation.pk
    reactivate_person(username="second", reason="came back", actor=ada)
    admin.refresh_from_db()
    assert (admin.is_active, admin.roles, admin.has_usable_password()) == (True, [], False)
    assert authenticate_token(clear) is None
    assert AuditEntry.objects.get(action="user.reactivate").reason == "came back"


def test_going_by_the_api(
    persons: People, eve: User, model: RegisteredModel, api: Callable[[User], APIClient]
) -> None:
    client = api(persons.ada)
    seen = client.get("/api/v1/people/dana/departure/").json()
    assert {one["key"]: one["suggested"] for one in seen["duties"]} == {
        SEAT: ["eve"],
        OWNER: ["eve"],
    }
    path = "/api/v1/people/dana/deactivate/"
    refused = client.post(path, {"reason": "left"}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (422, "successors_missing")
    body = {"reason": "left", "successors": {SEAT: "eve", OWNER: "eve"}}
    assert api(persons.sam).post(path, body, format="json").status_code == 403
    assert api(persons.sam).get("/api/v1/people/dana/departure/").status_code == 403
    done = client.post(path, body, format="json")
    assert done.json()["handed_over"] == [SEAT, OWNER]
    shown = client.get("/api/v1/people/?state=deactivated").json()["results"]
    assert [one["username"] for one in shown] == ["dana"]
    back = client.post("/api/v1/people/dana/reactivate/", {}, format="json")
    assert (back.json()["active"], back.json()["roles"]) == (True, [])


def test_going_by_the_page_names_everything_and_suggests_who(
    persons: People, eve: User, model: RegisteredModel, signed_in: Callable[[User], Client]
) -> None:
    admin = signed_in(persons.ada)
    page = admin.get("/settings/people/dana/deactivate/").content.decode()
    assert "the seat Data scientist of fraud_detector" in page
    assert f'name="{SEAT}" value="eve"' in page
    path = "/settings/people/dana/deactivate/"
    unfit = admin.post(path, {"reason": "left", SEAT: "vic", OWNER: "eve"})
    assert unfit.status_code == 422
    assert "vic does not have the role" in unfit.content.decode()
    done = admin.post(path, {"reason": "left", SEAT: "eve", OWNER: "eve"})
    assert (done.status_code, done["Location"]) == (302, "/settings/people/dana/")
    assert signed_in(persons.sam).get(path).status_code == 403
    assert "Let in again" in admin.get("/settings/people/dana/").content.decode()


def test_a_session_from_before_does_not_come_back_to_life(persons: People) -> None:
    browser = Client()
    browser.force_login(persons.vic)
    kept = dict(browser.session.items())
    deactivate_person(username="vic", reason="left", actor=actor(persons.ada))
    reactivate_person(username="vic", reason="", actor=actor(persons.ada))
    session = browser.session
    session.update(kept)
    session.save()
    browser.cookies["sessionid"] = session.session_key
    assert SESSION_KEY in session
    assert browser.get("/jobs/").status_code == 302
    assert ApiToken.objects.filter(user=persons.vic).count() == 0


def test_a_release_that_nobody_else_can_approve_is_named_and_its_asker_told(
    persons: People, api: Callable[[User], APIClient]
) -> None:
    model = make_model(seats=False)
    release = make_release(make_version(model), state="proposed")
    seen = api(persons.ada).get("/api/v1/people/sam/departure/").json()["duties"]
    assert [(one["kind"], one["needs_successor"]) for one in seen] == [("approval", False)]
    make_user("second", "sre")
    assert api(persons.ada).get("/api/v1/people/sam/departure/").json()["duties"] == []
    deactivate_person(username="second", reason="left", actor=actor(persons.ada))
    assert not Notice.objects.filter(kind="release.no_approver").exists()
    deactivate_person(username="sam", reason="left", actor=actor(persons.ada))
    told = Notice.objects.get(kind="release.no_approver")
    assert (told.recipient, told.data["person"]) == (persons.dana, "sam")
    withdraw_release(release=release, actor=actor(persons.dana))
    told.refresh_from_db()
    assert told.ended_at is not None
