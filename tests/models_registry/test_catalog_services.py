"""Models: names, seats, aliases, environments."""

from __future__ import annotations

import pytest
from django.test import Client

from console.errors import Conflict, CovenantError, Invalid, NotAllowed
from console.models import AuditEntry, Team, TeamMembership
from models_registry.models import Environment, RegisteredModel, SeatHolder, VersionState
from models_registry.rules import names
from models_registry.services import catalog
from models_registry.services.environments import set_environment
from tests import factories
from tests.factories import People, actor

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> People:
    return factories.people()


def test_registering_with_seats(people: People) -> None:
    model = catalog.register_model(
        name="fraud_detector",
        description="Scores payments",
        tags=["payments"],
        seats=people.seats,
        actor=actor(people.dana),
    )
    assert model.owner == people.dana
    assert {h.seat: h.user for h in model.seats.all()} == people.seats
    entry = AuditEntry.objects.get(action="model.create")
    assert entry.after["seats"]["sre"] == "sam"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a",
        "Fraud",
        "fraud-detector",
        "1fraud",
        "fraud detector",
        "x" * 64,
        "модель",
        "fraud_g2",
        "new",
    ],
)
def test_bad_names(people: People, name: str) -> None:
    with pytest.raises(Invalid) as refused:
        catalog.register_model(name=name, actor=actor(people.dana))
    assert refused.value.code == "bad_name"
    assert refused.value.hint.startswith("For example: ")
    assert not RegisteredModel.objects.exists()


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("FraudDetector", "fraud_detector"),
        ("Fraud Detector v2!", "fraud_detector_v"),
        ("détecteur", "detecteur"),
        ("42", ""),
    ],
)
def test_a_better_name_is_suggested(name: str, better: str) -> None:
    assert names.suggestion(name) == better


def test_a_name_is_taken_once(people: People) -> None:
    factories.make_model()
    with pytest.raises(Conflict) as refused:
        catalog.register_model(name="fraud_detector", actor=actor(people.dana))
    assert refused.value.code == "name_taken"
    assert RegisteredModel.objects.count() == 1


def test_seats_take_the_role_and_three_people(people: People) -> None:
    model = factories.make_model(seats=False)
    who = actor(people.dana)
    for seat, user, code in (
        ("sre", people.dana, "role_missing"),
        ("pilot", people.sam, "unknown_seat"),
    ):
        with pytest.raises(Invalid) as refused:
            catalog.assign_seat(model=model, seat=seat, user=user, actor=who)
        assert refused.value.code == code
    both = factories.make_user("beth", "sre", "business_owner")
    catalog.assign_seat(model=model, seat="sre", user=both, actor=who)
    with pytest.raises(Conflict) as twice:
        catalog.assign_seat(model=model, seat="business_owner", user=both, actor=who)
    assert twice.value.code == "one_seat_per_person"
    catalog.assign_seat(model=model, seat="sre", user=people.sam, actor=who)
    assert SeatHolder.objects.get(model=model).user == people.sam


def test_a_failed_registration_leaves_no_model(people: People) -> None:
    with pytest.raises(CovenantError):
        catalog.register_model(
            name="fraud_detector", seats={"sre": people.vic}, actor=actor(people.dana)
        )
    assert not RegisteredModel.objects.exists()


def test_changing_a_model(people: People) -> None:
    model = factories.make_model()
    who = actor(people.dana)
    catalog.change_model(model=model, changes={"risk_class": "high", "tags": []}, actor=who)
    entry = AuditEntry.objects.get(action="model.change")
    assert (entry.before["risk_class"], entry.after["risk_class"]) == ("medium", "high")
    catalog.change_model(model=model, changes={"risk_class": "high"}, actor=who)
    assert AuditEntry.objects.filter(action="model.change").count() == 1
    for changes, code in (
        ({"name": "other"}, "not_changeable"),
        ({"risk_class": "none"}, "bad_risk_class"),
        ({"tags": ["a,b"]}, "bad_tags"),
    ):
        with pytest.raises(Invalid) as refused:
            catalog.change_model(model=model, changes=changes, actor=who)
        assert refused.value.code == code


def test_who_has_a_part_in_a_model(people: People) -> None:
    model = factories.make_model()
    otto = factories.make_user("otto", "data_scientist")
    with pytest.raises(NotAllowed) as refused:
        catalog.change_model(model=model, changes={"risk_class": "low"}, actor=actor(otto))
    assert refused.value.code == "not_your_model"
    team = Team.objects.create(name="Payments", slug="payments")
    team.members.add(otto)
    catalog.change_model(model=model, changes={"team": team}, actor=actor(people.ada))
    catalog.change_model(model=model, changes={"risk_class": "low"}, actor=actor(otto))


def test_aliases_point_to_validated_versions(people: People) -> None:
    model = factories.make_model()
    version = factories.make_version(model)
    factories.make_version(model, state=VersionState.REJECTED)
    who = actor(people.dana)
    alias = catalog.set_alias(model=model, name="champion", number=1, actor=who)
    assert alias is not None
    assert alias.version == version
    with pytest.raises(Conflict):
        catalog.set_alias(model=model, name="champion", number=2, actor=who)
    with pytest.raises(CovenantError):
        catalog.set_alias(model=model, name="champion", number=9, actor=who)
    with pytest.raises(Invalid):
        catalog.set_alias(model=model, name="No Good", number=1, actor=who)
    assert catalog.set_alias(model=model, name="champion", number=None, actor=who) is None
    assert not model.aliases.exists()


def test_environments_and_their_policy(people: People) -> None:
    who = actor(people.ada)
    for _ in range(2):
        set_environment(
            name="production", requires_contract=True, approver_roles=["sre"], actor=who
        )
    assert AuditEntry.objects.filter(subject="environment production").count() == 1
    set_environment(name="production", author_may_approve=True, actor=who)
    environment = Environment.objects.get(name="production")
    assert environment.approver_roles == ["sre"]
    assert environment.author_may_approve
    for fields, code in (
        ({"name": "Prod uction"}, "bad_name"),
        ({"name": "production", "approver_roles": ["viewer"]}, "unknown_role"),
    ):
        with pytest.raises(Invalid) as refused:
            set_environment(**fields, actor=who)
        assert refused.value.code == code
    with pytest.raises(NotAllowed):
        set_environment(name="staging", actor=actor(people.sam))


def test_a_seat_shows_who_may_sit_there_and_who_sat_there(people: People, client: Client) -> None:
    model = factories.make_model()
    team = Team.objects.create(name="Risk", slug="risk")
    TeamMembership.objects.create(team=team, user=people.vic, roles=["sre"])
    RegisteredModel.objects.filter(pk=model.pk).update(team=team)
    client.force_login(people.ada)
    path = "/models/fraud_detector/seats/sre/"
    assert 'value="vic"' in client.get(path).content.decode()
    assert client.post(path, {"user": "vic"}).status_code == 302
    assert "vic after sam" in client.get(path).content.decode()
    other = "/models/fraud_detector/seats/business_owner/"
    assert 'value="vic"' not in client.get(other).content.decode()
