"""A model that is for its team alone does not exist for others, wherever it is named."""

from __future__ import annotations

import uuid

import pytest
from django.db import transaction
from django.test import Client
from rest_framework.test import APIClient

from console.errors import Invalid, NotFound
from console.models import AuditEntry, Job, Role, Team, TeamMembership, User
from console.rules.subjects import model_named, model_of_topic
from console.selectors.audit import AuditFilter, audit_entries
from console.selectors.jobs import JobFilter, find_job, job_list
from console.selectors.visibility import audible_topics
from console.services import audit
from console.services.jobs import enqueue
from models_registry.models import ModelVersion, RegisteredModel, SeatHolder
from models_registry.models.catalog import Visibility
from models_registry.selectors.visibility import narrowed, viewers
from models_registry.services.catalog import change_model
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("model secret", "secret"),
        ("secret v3", "secret"),
        ("secret v3 → production on local", "secret"),
        ("secret v3 in staging", "secret"),
        ("secret contract 2", "secret"),
        ("secret release 5b1d", "secret"),
        ("secret draft 4", "secret"),
        ("pre-production/secret", "secret"),
        (f"job {uuid.UUID(int=7)} of secret v3 on local", "secret"),
        (f"job {uuid.UUID(int=7)} of node local", ""),
        ("node local", ""),
        ("user dana", ""),
        ("upload 5b1d", ""),
        ("environment production", ""),
        ("", ""),
    ],
)
def test_a_subject_names_its_model_in_python_and_in_the_database(subject: str, name: str) -> None:
    assert model_named(subject) == name
    actor = factories.actor(factories.people().ada)
    with transaction.atomic():
        audit.record(actor=actor, action="x.y", subject=subject)
    hide("secret")
    seen = audit_entries(AuditFilter(), user=factories.people().vic)
    assert seen.exists() == (not name) or subject.startswith("upload ")


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("model:secret", "secret"),
        ("version:secret/3", "secret"),
        ("contract:secret/1", "secret"),
        ("endpoint:production/secret", "secret"),
        ("subject:secret v3", "secret"),
        ("subject:node local", ""),
        ("node:local", ""),
        ("jobs", ""),
    ],
)
def test_a_topic_names_its_model(topic: str, name: str) -> None:
    assert model_of_topic(topic) == name


def hide(name: str = "fraud_detector", team: Team | None = None) -> RegisteredModel:
    """A model of ada's, without seats, for its team alone."""
    return RegisteredModel.objects.create(
        name=name, owner=factories.people().ada, visibility=Visibility.TEAM, team=team
    )


def member(username: str, team: Team, *roles: str) -> User:
    person = factories.make_user(username)
    TeamMembership.objects.create(team=team, user=person, roles=list(roles))
    return person


def test_a_team_s_model_is_seen_by_team_seats_owner_and_who_sees_all() -> None:
    persons = factories.people()
    team = Team.objects.create(name="Payments", slug="payments")
    other = Team.objects.create(name="Search", slug="search")
    model = hide(team=team)
    SeatHolder.objects.create(model=model, seat="business_owner", user=persons.bea)
    tim, tom = member("tim", team), member("tom", other, Role.SRE, Role.PLATFORM_ADMIN)
    own = RegisteredModel.objects.create(
        name="of_dana", owner=persons.dana, visibility=Visibility.TEAM
    )

    def sees(user: User) -> set[str]:
        return set(RegisteredModel.objects.visible_to(user).values_list("name", flat=True))

    assert sees(persons.ada) == sees(persons.sam) == {model.name, own.name}
    assert sees(persons.bea) == sees(tim) == {model.name}
    assert sees(persons.dana) == {own.name}
    # A role in another team, be it an admin's, opens that team's models only.
    assert sees(tom) == sees(persons.vic) == set()


def test_rows_that_hang_on_a_model_are_seen_with_it_and_once_each() -> None:
    persons = factories.people()
    team = Team.objects.create(name="Payments", slug="payments")
    tim = member("tim", team)
    model = factories.make_model()
    version = factories.make_version(model)
    model.visibility, model.team = Visibility.TEAM, team
    model.save()
    SeatHolder.objects.filter(model=model, seat="sre").update(user=tim)
    assert list(ModelVersion.objects.visible_to(tim)) == [version]
    assert list(ModelVersion.objects.visible_to(persons.bea)) == [version]
    assert not ModelVersion.objects.visible_to(persons.vic).exists()


def test_jobs_audit_and_live_events_of_a_hidden_model_are_as_if_there_were_none() -> None:
    persons = factories.people()
    model = factories.make_model()
    version = factories.make_version(model)
    release = factories.make_release(version)
    model.visibility = Visibility.TEAM
    model.save()
    system = factories.actor(persons.ada)
    with transaction.atomic():
        job = enqueue(kind="export", subject=str(version), arguments={}, actor=system)
        other = enqueue(kind="export", subject="audit trail", arguments={}, actor=system)
        # Its log and result name all that lies on the node.
        of_node = enqueue(kind="export", subject="node local", arguments={}, actor=system)
        audit.record(actor=system, action="model.change", subject=f"model {model.name}")
        audit.record(actor=system, action="node.cordon", subject="node local")
        audit.record(actor=system, action="upload.create", subject="upload 77", after={})
    topics = {
        f"model:{model.name}",
        f"version:{model.name}/1",
        f"release:{release.pk}",
        f"job:{job.pk}",
        f"job:{other.pk}",
        f"job:{of_node.pk}",
        f"subject:{version}",
        "subject:node local",
        "jobs",
        "inbox:dana",
        "inbox:vic",
        "job:nonsense",
    }
    vic, dana = persons.vic, persons.dana
    assert list(job_list(JobFilter(), user=vic)) == [other]
    with pytest.raises(NotFound):
        find_job(of_node.pk, user=vic)
    assert set(job_list(JobFilter(), user=dana)) == {job, other, of_node}
    actions = audit_entries(AuditFilter(), user=vic).values_list("action", flat=True)
    assert list(actions) == ["node.cordon"]
    assert audit_entries(AuditFilter(), user=dana).count() == 2
    assert audit_entries(AuditFilter(), user=persons.ada).count() == AuditEntry.objects.count()
    assert audible_topics(vic, topics) == {f"job:{other.pk}", "jobs", "inbox:vic", "job:nonsense"}
    assert audible_topics(dana, topics) == topics - {"inbox:vic"}
    assert audible_topics(persons.sam, topics) == topics - {"inbox:dana", "inbox:vic"}
    assert Job.objects.count() == 3
    model.visibility = Visibility.EVERYBODY
    model.save()
    assert set(job_list(JobFilter(), user=vic)) == {job, other, of_node}


def test_a_refusal_at_a_release_is_told_with_its_model_and_hidden_with_it() -> None:
    persons = factories.people()
    release = factories.make_release(factories.make_version(factories.make_model()))
    RegisteredModel.objects.update(visibility=Visibility.TEAM)
    client = Client()
    client.force_login(persons.bea)
    assert client.post(f"/releases/{release.pk}/review/", {"review": "x"}).status_code == 403
    entry = AuditEntry.objects.get(action="access.denied")
    assert entry.subject == f"{release.version.model.name} release {release.pk}"
    assert entry not in audit_entries(AuditFilter(), user=persons.vic)
    assert entry in audit_entries(AuditFilter(), user=persons.dana)


def test_making_a_model_narrower_names_who_loses_sight_of_it() -> None:
    persons = factories.people()
    team = Team.objects.create(name="Payments", slug="payments")
    tim = member("tim", team)
    model = factories.make_model()
    model.team = team
    model.save()
    SeatHolder.objects.filter(model=model, seat="business_owner").delete()
    sight = narrowed(model)
    assert (sight.owner, sight.in_team, sight.by_role) == (persons.dana, (tim,), 2)
    assert [user.username for user in sight.losing] == ["bea", "vic"]
    dana = factories.actor(persons.dana)
    change_model(model=model, changes={"visibility": "team"}, actor=dana)
    entry = AuditEntry.objects.order_by("-sequence")[0]
    assert entry.before == {"visibility": "everybody"}
    assert entry.after == {
        "visibility": "team",
        "lost_sight": ["bea", "vic"],
        "lost_sight_count": 2,
    }
    assert set(viewers(model)) >= {tim}
    # Giving it to another team takes it from the first.
    model.refresh_from_db()
    other = Team.objects.create(name="Search", slug="search")
    change_model(model=model, changes={"team": other}, actor=dana)
    entry = AuditEntry.objects.order_by("-sequence")[0]
    assert isinstance(entry.after, dict)
    assert entry.after["lost_sight"] == ["tim"]
    with pytest.raises(Invalid, match="There is no visibility nobody"):
        change_model(model=model, changes={"visibility": "nobody"}, actor=dana)


def test_who_sees_all_models_is_the_same_for_a_person_and_as_a_condition() -> None:
    team = Team.objects.create(name="Payments", slug="payments")
    factories.people()
    member("tom", team, Role.SRE, Role.PLATFORM_ADMIN)
    factories.make_user("root").delete()
    User.objects.create_superuser("root", email="root@example.com", roles=[])
    model = hide()
    seen = {user.username for user in viewers(model)}
    assert seen == {user.username for user in User.objects.all() if user.sees_all_models} - {
        "system"
    }
    assert seen == {"ada", "sam", "root"}


def test_an_owner_narrows_by_api_and_by_page(client: Client) -> None:
    persons = factories.people()
    factories.make_model()
    api = APIClient()
    api.force_login(persons.dana)
    answer = api.patch("/api/v1/models/fraud_detector/", {"visibility": "team"}, format="json")
    assert (answer.status_code, answer.json()["visibility"]) == (200, "team")
    api.force_login(persons.vic)
    gone = api.get("/api/v1/models/fraud_detector/")
    nothing = api.get("/api/v1/models/nothing_here/")
    assert gone.status_code == nothing.status_code == 404
    assert (
        gone.json()["detail"].replace("fraud_detector", "nothing_here")
        == (nothing.json()["detail"])
    )
    client.force_login(persons.dana)
    page = client.get("/models/fraud_detector/change/").content.decode()
    assert "Who sees this model" in page
    form = {"visibility": "everybody", "risk_class": "medium", "description": "", "tags": ""}
    assert client.post("/models/fraud_detector/change/", form).status_code == 302
    back = client.post(
        "/models/fraud_detector/change/", {**form, "visibility": "team"}, follow=True
    )
    assert "1 person no longer sees this model: vic." in back.content.decode()
