"""One of everything, so that every address has something to show."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone
from joserfc.jwk import ECKey

from console.actors import Actor
from console.models import Invitation, Notice, SigningKey, Team, User, WorkloadIdentity
from console.services.audit_sinks import create_sink
from console.services.invitations import invite
from console.services.jobs import enqueue
from console.services.notices import notify
from console.services.service_accounts import create_service_account
from console.services.teams import create_team
from console.services.tokens import create_token
from console.services.workloads import add_workload
from deployments.models import (
    Alert,
    AlertRule,
    Diagnosis,
    Endpoint,
    Placement,
    TrafficSplit,
)
from deployments.services.access.callers import create_caller, create_caller_key
from deployments.services.access.token_issuers import set_token_issuer
from deployments.services.alerts.rules import set_rule
from deployments.services.alerts.silences import create_silence
from deployments.services.diagnosis.asking import request_diagnosis
from deployments.services.experiments.acts import start_experiment
from deployments.services.fleet import nodes as fleet
from deployments.services.gateways.registrations import register_gateway
from deployments.services.incidents.records import open_incident
from deployments.services.objectives.exclusions import propose_exclusion
from deployments.services.objectives.maintenance import propose_maintenance
from deployments.services.objectives.sla_shares import share_sla
from deployments.services.objectives.sla_subscriptions import subscribe
from deployments.services.rollouts.acts import start_rollout
from deployments.services.traffic.splits import set_split
from models_registry.models import (
    ContractComment,
    ContractDraft,
    Environment,
    RegisteredModel,
    ServiceContract,
)
from models_registry.services.freezes import freeze_environment
from tests import factories
from tests.deployments.conftest import Fleet, ready_version
from tests.structure.alerting import alerting_values


@dataclass(frozen=True, slots=True)
class World:
    """The people, and a value for each parameter that an address may have."""

    people: factories.People
    values: dict[str, Any]


@pytest.fixture
def world(db: None) -> World:
    """A model with two versions live in production, a release, a contract, a job, a node."""
    return make_world("fraud_detector")


def make_world(name: str) -> World:
    """The world with a model of this name."""
    persons = factories.people()
    system = Actor.system("tests")
    staging, production = (factories.make_environment(name) for name in ("staging", "production"))
    node = fleet.register_node(
        name="local",
        http_address="127.0.0.1:9",
        grpc_address="127.0.0.1:9",
        repository="/nowhere",
        environments=["staging", "production"],
        actor=system,
    )
    gateway = register_gateway(
        name="embedded",
        admin_url="http://127.0.0.1:9",
        actor=system,
        listeners={"production": ("127.0.0.1", 9), "staging": ("127.0.0.1", 10)},
    )
    # One that has a file to export.
    register_gateway(
        name="kong",
        adapter="kong",
        admin_url="http://127.0.0.1:9",
        actor=system,
        listeners={"staging": ("127.0.0.1", 11)},
    )
    model = factories.make_model(name)
    rows = Fleet(staging, production, node, gateway, factories.actor(persons.sam), system)
    placements = [ready_version(rows, factories.make_version(model)) for _ in range(2)]
    split = set_split(
        environment="production",
        model=model.name,
        weights={1: 90, 2: 10},
        expected_revision=None,
        reason="a start",
        actor=rows.sam,
    )
    with transaction.atomic():
        job = enqueue(
            kind="deploy",
            subject=f"{model.name} v1 → production on local",
            arguments={},
            queue="node.local",
            actor=rows.sam,
        )
    team, invited, workload = _people_of_all_kinds(persons.ada)
    token, _ = create_token(name="ci", scopes=["read"], actor=factories.actor(persons.ada))
    release = placements[0].deployment.release
    assert Endpoint.objects.filter(current=split).exists()
    return World(
        people=persons,
        values={
            "alias": "champion",
            "alias_name": "champion",
            "caller": "billing",
            "comment_id": _comment(model),
            "code": "not_found",
            "deployment_id": placements[0].deployment.pk,
            "diagnosis_id": _diagnosis(placements[0], persons.sam),
            "draft_id": _draft(model),
            "environment": "production",
            "exclusion_id": _exclusion(model, persons.dana),
            "experiment_id": _experiment(rows, model),
            "file": "onnx",
            "handle": "0123456789abcdef",
            "identity_id": 1,
            "alert_id": _alert(split),
            "incident_id": _incident(split, system),
            "rule": _alert_rule(model, persons.sam),
            "silence_id": _silence(model, persons.sam),
            "issuer_name": _token_issuer(persons.sam),
            "passkey_id": 1,
            "gateway": "kong",
            "freeze_id": _freeze(production, persons.sam),
            "job_id": job.pk,
            "load_test_id": factories.make_load_test(placements[0].deployment.release.version).pk,
            "key": "online_scoring",
            "key_id": SigningKey.objects.first().keyid,  # type: ignore[union-attr]
            "model": model.name,
            "name": model.name,
            "node": "local",
            "notice_id": _notice(persons.ada, model),
            "number": 1,
            "output": 0,
            "prefix": _caller_key(persons.sam),
            "release_id": release.pk,
            "revision": 1,
            "rollout_id": _rollout(model, persons.sam),
            "seat": "sre",
            "secret": "made-up",
            "share_id": _share(model, persons.ada),
            "subscription_id": _subscription(model, persons.ada),
            "slug": team.slug,
            "sink": _sink(persons.ada),
            "token_id": token.pk,
            "invitation_id": invited.pk,
            "window_id": _maintenance(model, persons.dana),
            "workload_id": workload.pk,
            "upload_id": factories.make_upload(b"bytes", owner=persons.ada).pk,
            "username": "dana",
            **alerting_values(persons.ada),
        },
    )


def _rollout(model: RegisteredModel, person: User) -> uuid.UUID:
    rollout = start_rollout(
        environment="production",
        model=model.name,
        version=2,
        reason="a new version",
        actor=factories.actor(person),
    )
    return rollout.pk


def _diagnosis(placement: Placement, person: User) -> uuid.UUID:
    """One that has ended, so that the page may ask for another one."""
    version, node = placement.deployment.release.version, placement.node
    actor = factories.actor(person)
    diagnosis = request_diagnosis(version=version, node=node, actor=actor)
    Diagnosis.objects.filter(pk=diagnosis.pk).update(state="clean", ended_at=timezone.now())
    return diagnosis.pk


def _alert(split: TrafficSplit) -> uuid.UUID:
    """One that fires, as the engine writes it."""
    now = timezone.now()
    alert = Alert.objects.create(
        rule=AlertRule.objects.filter(name="success-rate").first(),
        rule_name="success-rate",
        severity="P1",
        state="firing",
        endpoint=split.endpoint,
        signal="success_rate_percent",
        title="Too few requests succeed",
        value=98.0,
        threshold=99.9,
        unit="%",
        started_at=now,
        fired_at=now,
        seen_at=now,
        fingerprint=uuid.uuid4().hex,
        group_key=str(split.endpoint),
    )
    return alert.pk


def _alert_rule(model: RegisteredModel, person: User) -> str:
    row = set_rule(
        name="slow-answers",
        title="Answers are slow",
        severity="P2",
        document={"conditions": [{"signal": "latency_p99_ms", "op": ">", "threshold": 80}]},
        model=model.name,
        actor=factories.actor(person),
    )
    return row.name


def _silence(model: RegisteredModel, person: User) -> uuid.UUID:
    silence = create_silence(
        rule="slow-answers",
        model=model.name,
        ends_at=timezone.now() + timedelta(hours=1),
        reason="a load test",
        actor=factories.actor(person),
    )
    return silence.pk


def _share(model: RegisteredModel, person: User) -> uuid.UUID:
    shared = share_sla(
        environment="production", model=model.name, note="audit", actor=factories.actor(person)
    )
    return shared.share.pk


def _subscription(model: RegisteredModel, person: User) -> int:
    person.email = "ada@example.com"
    person.save(update_fields=["email"])
    report = subscribe(environment="production", model=model.name, actor=factories.actor(person))
    return report.pk


def _incident(split: TrafficSplit, actor: Actor) -> uuid.UUID:
    incident = open_incident(
        endpoint=split.endpoint,
        cause="error_rate",
        title="v2 fails",
        severity="P2",
        at=timezone.now(),
        actor=actor,
    )
    return incident.pk


def _maintenance(model: RegisteredModel, person: User) -> uuid.UUID:
    start = timezone.now().replace(second=0, microsecond=0) + timedelta(days=3)
    window = propose_maintenance(
        environment="production",
        model=model.name,
        starts_at=start,
        ends_at=start + timedelta(minutes=9),
        reason="New disks",
        actor=factories.actor(person),
    )
    return window.pk


def _exclusion(model: RegisteredModel, person: User) -> uuid.UUID:
    end = timezone.now().replace(second=0, microsecond=0) - timedelta(days=3)
    exclusion = propose_exclusion(
        environment="production",
        model=model.name,
        starts_at=end - timedelta(minutes=9),
        ends_at=end,
        reason="The network was down",
        evidence="Report 4711",
        actor=factories.actor(person),
    )
    return exclusion.pk


def _caller_key(person: User) -> str:
    actor = factories.actor(person)
    create_caller(environment="production", name="billing", actor=actor)
    key, _text = create_caller_key(environment="production", name="billing", actor=actor)
    return key.prefix


def _token_issuer(person: User) -> str:
    key = ECKey.generate_key("P-256", {"kid": "one"}).as_dict(private=False)
    issuer = set_token_issuer(
        environment="production",
        name="acme",
        issuer="https://sign-in.example.com",
        audiences=["models"],
        jwks={"keys": [key]},
        actor=factories.actor(person),
    )
    return issuer.name


def _sink(person: User) -> str:
    sink, _ = create_sink(
        name="siem", kind="webhook", address="https://127.0.0.1:9/", actor=factories.actor(person)
    )
    return sink.name


def _notice(person: User, model: RegisteredModel) -> int:
    notify(people=[person], kind="placement.drift", key="world", subject=f"{model.name} v1")
    return Notice.objects.get(recipient=person).pk


def _freeze(environment: Environment, person: User) -> int:
    now = timezone.now()
    window = freeze_environment(
        environment=environment,
        name="Holidays",
        starts_at=now + timedelta(days=9),
        ends_at=now + timedelta(days=10),
        reason="nobody is on call",
        actor=factories.actor(person),
    )
    return window.pk


def _experiment(rows: Fleet, model: RegisteredModel) -> uuid.UUID:
    experiment = start_experiment(
        environment="production",
        model=model.name,
        name="Checkout",
        outcome="purchase",
        baseline=1,
        candidate=2,
        actor=rows.sam,
    )
    return experiment.pk


def _draft(model: RegisteredModel) -> int:
    draft = ContractDraft(model=model, title="The next promise", text=f"model: {model.name}\n")
    draft.created_by = draft.changed_by = model.owner
    draft.save()
    return draft.pk


def _comment(model: RegisteredModel) -> int:
    """On the contract in force: made while it was proposed."""
    contract = ServiceContract.objects.get(model=model, revision=1)
    said = ContractComment.objects.create(contract=contract, author=model.owner, text="Good.")
    return said.pk


def _people_of_all_kinds(admin: User) -> tuple[Team, Invitation, WorkloadIdentity]:
    """A team with a service account, somebody who is invited, and what speaks for the account."""
    actor = factories.actor(admin)
    team = create_team(name="Risk", actor=actor)
    account = create_service_account(username="ci-fraud", team=team.slug, roles=[], actor=actor)
    workload = add_workload(
        username=account.username,
        name="main branch",
        issuer="https://gitlab.example.com",
        audience="covenant",
        claims={"sub": "project:risk/*"},
        scopes=["read"],
        actor=actor,
    )
    return team, invite(email="kim@example.com", actor=actor).invitation, workload


@dataclass(frozen=True, slots=True)
class Address:
    """One pattern: its name with namespaces, its callback and the names of its parameters."""

    name: str
    pattern: URLPattern
    route: str

    @property
    def parameters(self) -> list[str]:
        return list(self.pattern.pattern.regex.groupindex)

    @property
    def kinds(self) -> dict[str, str]:
        """Parameter → name of its converter."""
        parts = re.findall(r"<(?:(\w+):)?(\w+)>", self.route)
        return {name: kind or "str" for kind, name in parts}

    @property
    def is_api(self) -> bool:
        return self.route.startswith(("api/", "otlp/"))


def addresses() -> list[Address]:
    """Every address of the product."""
    return list(_walk(get_resolver().url_patterns, "", ""))


def _walk(patterns: list[Any], namespace: str, route: str) -> Iterator[Address]:
    for pattern in patterns:
        inner = route + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            deeper = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from _walk(pattern.url_patterns, deeper, inner)
        elif pattern.name:
            yield Address(f"{namespace}{pattern.name}", pattern, inner)
