"""Rows that tests start from, minimal but true: real bytes, real digests, real signatures.

Written straight into the tables, so that a test of one room needs no other room to work.
People: dana (data scientist), sam (SRE), bea (business owner), ada (platform admin), vic (viewer).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from django.utils import timezone

from console.actors import Actor
from console.models import User
from console.rules.canonical import digest
from models_registry.adapters import triton_config
from models_registry.exporting.protocol import ExportFacts, TensorSpec
from models_registry.models import (
    Artifact,
    ContractSignature,
    ContractState,
    Environment,
    LoadTest,
    ModelVersion,
    RegisteredModel,
    Release,
    ReleaseApproval,
    ReleaseState,
    SeatHolder,
    ServiceContract,
    Upload,
    UploadState,
    VersionState,
)
from models_registry.rules import (
    approval_documents,
    contract_document,
    load_measurements,
    load_tests,
    release_payload,
    tuning,
)
from models_registry.rules.approval_rules import role_rule
from models_registry.services import artifacts
from tests.models_registry import signing

PASSWORD = "correct horse battery staple"
SEATS = ("data_scientist", "sre", "business_owner")
INPUTS = (TensorSpec("features", "FP32", (-1, 10), ("batch", ""), -10, 10),)
OUTPUTS = (TensorSpec("risk_score", "FP32", (-1, 1), ("batch", ""), 0, 1),)
LATENCY = {"batch": 1, "mean_ms": 0.5, "p50_ms": 0.4, "p95_ms": 0.8, "p99_ms": 0.9, "runs": 50}


@dataclass(frozen=True, slots=True)
class People:
    """The five whom every example speaks of."""

    dana: User
    sam: User
    bea: User
    ada: User
    vic: User

    @property
    def seats(self) -> dict[str, User]:
        """Who sits where in a model made by `make_model`."""
        return dict(zip(SEATS, (self.dana, self.sam, self.bea), strict=True))


def make_user(username: str, *roles: str, password: str | None = None) -> User:
    """A person with these roles; without a password they cannot sign in (hashing takes time)."""
    if (known := User.objects.filter(username=username).first()) is not None:
        return known
    user = User(
        username=username,
        display_name=username.capitalize(),
        email=f"{username}@example.com",
        roles=list(roles),
    )
    if password is None:
        user.set_unusable_password()
    else:
        user.set_password(password)
    user.save()
    return user


def people(password: str | None = None) -> People:
    """The five, made on first use."""
    return People(
        dana=make_user("dana", "data_scientist", password=password),
        sam=make_user("sam", "sre", password=password),
        bea=make_user("bea", "business_owner", password=password),
        ada=make_user("ada", "platform_admin", password=password),
        vic=make_user("vic", "viewer", password=password),
    )


def actor(user: User, *, scopes: set[str] | None = None) -> Actor:
    """The person at a test's door."""
    return Actor(user=user, source="test", scopes=None if scopes is None else frozenset(scopes))


def make_model(name: str = "fraud_detector", *, seats: bool = True) -> RegisteredModel:
    """A model of dana's; dana, sam and bea sit in its seats unless `seats` is False."""
    persons = people()
    model = RegisteredModel.objects.create(
        name=name, owner=persons.dana, description="Scores a payment for fraud.", tags=["payments"]
    )
    if seats:
        for seat, user in persons.seats.items():
            SeatHolder.objects.create(model=model, seat=seat, user=user)
    return model


def make_artifact(data: bytes, media_type: str = "application/octet-stream") -> Artifact:
    """Stored bytes with their row."""
    return artifacts.store_bytes(data, media_type)


def make_upload(data: bytes, filename: str = "model.onnx", *, owner: User | None = None) -> Upload:
    """A complete upload of these bytes, not sniffed."""
    return Upload.objects.create(
        owner=owner or people().dana,
        filename=filename,
        length=len(data),
        offset=len(data),
        state=UploadState.COMPLETE,
        artifact=make_artifact(data),
        expires_at=timezone.now() + timedelta(days=1),
    )


@cache
def tiny_onnx(bias: float = 0.0) -> bytes:
    """A real model, opset 17, IR 8: risk_score = sigmoid(mean(features) + bias), batch free."""
    import numpy
    from onnx import TensorProto, checker, helper, numpy_helper

    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 10])
    score = helper.make_tensor_value_info("risk_score", TensorProto.FLOAT, ["batch", 1])
    weight = numpy_helper.from_array(numpy.full((10, 1), 0.1, numpy.float32), "weight")
    offset = numpy_helper.from_array(numpy.array([bias], numpy.float32), "bias")
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["features", "weight"], ["weighted"]),
            helper.make_node("Add", ["weighted", "bias"], ["logit"]),
            helper.make_node("Sigmoid", ["logit"], ["risk_score"]),
        ],
        "fraud_detector",
        [features],
        [score],
        [weight, offset],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model, full_check=True)
    return model.SerializeToString()


def facts_of(onnx: bytes) -> ExportFacts:
    """What an export of `tiny_onnx` would have found out."""
    return ExportFacts(
        inputs=INPUTS,
        outputs=OUTPUTS,
        batch_axis=0,
        opset=17,
        ir_version=8,
        operators={"MatMul": 1, "Add": 1, "Sigmoid": 1},
        parameters=11,
        size_bytes=len(onnx),
        sha256=hashlib.sha256(onnx).hexdigest(),
        exporter="onnx",
        producer="tests",
        sizes={"batch": [1, 2, 8]},
    )


def recorded_sample(bias: float = 0.0) -> bytes:
    """A v2 request and what `tiny_onnx(bias)` answers to it, as validation records them."""
    import math

    expected = 1 / (1 + math.exp(-(1.0 + bias)))
    features = {"name": "features", "datatype": "FP32", "shape": [1, 10], "data": [1.0] * 10}
    score = {"name": "risk_score", "datatype": "FP32", "shape": [1, 1], "data": [expected]}
    return json.dumps(
        {
            "request": {"inputs": [features]},
            "expected": {"outputs": [score]},
            "atol": 1e-5,
            "rtol": 1e-4,
        }
    ).encode()


def config_plan(
    model: str, *, queue_delay_us: int | None = None, max_batch_size: int | None = None
) -> tuning.ConfigPlan:
    """How `tiny_onnx` is run; a choice makes the configuration another one."""
    facts = tuning.TuningFacts(
        model=model,
        inputs=(tuning.Tensor("features", "FP32", ("batch", 10)),),
        outputs=(tuning.Tensor("risk_score", "FP32", ("batch", 1)),),
        mean_latency_ms=0.5,
        sample={"features": (1, 10)},
    )
    choice = tuning.TuningChoice(queue_delay_us=queue_delay_us, max_batch_size=max_batch_size)
    return tuning.plan(facts, choice)


def make_version(
    model: RegisteredModel | None = None,
    *,
    state: str = VersionState.VALIDATED,
    bias: float | None = None,
    queue_delay_us: int | None = None,
    max_batch_size: int | None = None,
) -> ModelVersion:
    """The model's next version, with all of its files when validated.

    `bias` is number/10 where none is given, so that versions answer differently.
    """
    model = model or RegisteredModel.objects.filter(name="fraud_detector").first() or make_model()
    number = RegisteredModel.objects.get(pk=model.pk).last_version_number + 1
    RegisteredModel.objects.filter(pk=model.pk).update(last_version_number=number)
    model.last_version_number = number
    shift = number / 10 if bias is None else bias
    onnx = tiny_onnx(shift)
    version = ModelVersion(
        model=model,
        number=number,
        state=state,
        source_format="onnx",
        filename="model.onnx",
        inputs=[spec.to_json() for spec in INPUTS],
        outputs=[spec.to_json() for spec in OUTPUTS],
        source=make_artifact(onnx),
        created_by=model.owner,
    )
    if state in (VersionState.VALIDATED, VersionState.ARCHIVED):
        plan = config_plan(model.name, queue_delay_us=queue_delay_us, max_batch_size=max_batch_size)
        report = {"verdict": "passed", "checks": [], "latency": [LATENCY], "seconds": 1.0}
        version.onnx = make_artifact(onnx)
        version.facts = facts_of(onnx).to_json()
        version.config = make_artifact(triton_config.render(plan).encode(), "text/plain")
        version.report = {**report, "of": f"{model.name} v{number}"}
        version.report_artifact = make_artifact(
            json.dumps(version.report).encode(), "application/json"
        )
        version.sample = make_artifact(recorded_sample(shift), "application/json")
        version.validated_at = timezone.now()
    version.save()
    return version


def contract_body(model: str = "fraud_detector", **changes: Any) -> dict[str, Any]:
    """A contract document that `tiny_onnx` keeps; `changes` replace whole sections."""
    feature = {"name": "features", "dtype": "FP32", "dims": ["batch", 10], "min": -10, "max": 10}
    score = {"name": "risk_score", "dtype": "FP32", "dims": ["batch", 1], "min": 0, "max": 1}
    return {
        "apiVersion": "covenant/v1",
        "kind": "ServiceContract",
        "model": model,
        "interface": {"inputs": [feature], "outputs": [score]},
        "objectives": [
            {"name": "latency", "threshold_ms": 80, "target": 99.0, "window": "28d"},
            {"name": "availability", "target": 99.9, "window": "28d"},
        ],
        "errors": [
            {"status": 422, "code": "invalid_input", "retry": False, "counts_against": "caller"},
            {
                "status": 503,
                "code": "model_unavailable",
                "retry": True,
                "counts_against": "provider",
            },
        ],
        "fallback": {"response": {"risk_score": 0.3, "reason": "model_down"}, "rules": []},
        "logging": {"required": ["x_request_id", "model_version"], "retention_days": 30},
        "drift": {"feature_drift_score": 0.3},
        "approvals": {"staging": [], "production": ["sre"]},
        **changes,
    }


def make_contract(
    model: RegisteredModel,
    *,
    state: str = ContractState.IN_FORCE,
    signed_by: tuple[str, ...] | None = None,
    **changes: Any,
) -> ServiceContract:
    """The model's next contract; in force it carries all three signatures (`signed_by`: seats)."""
    document = contract_document.from_json(contract_body(model.name, **changes))
    revision = RegisteredModel.objects.get(pk=model.pk).last_contract_revision + 1
    RegisteredModel.objects.filter(pk=model.pk).update(last_contract_revision=revision)
    now = timezone.now()
    in_force = state == ContractState.IN_FORCE
    if in_force:
        ServiceContract.objects.filter(model=model, state=ContractState.IN_FORCE).update(
            state=ContractState.SUPERSEDED, ended_at=now
        )
    contract = ServiceContract.objects.create(
        model=model,
        revision=revision,
        state=state,
        document=contract_document.to_json(document),
        payload=document.canonical,
        digest=document.digest,
        proposed_by=model.owner,
        valid_until=document.valid_until,
        in_force_at=now if in_force else None,
    )
    for seat in signed_by if signed_by is not None else (SEATS if in_force else ()):
        user = people().seats[seat]
        ContractSignature.objects.create(
            contract=contract,
            seat=seat,
            signer=user,
            key=signing.enrol(user),
            envelope=signing.contract_envelope(user, document.canonical),
        )
    return contract


def make_environment(name: str = "production") -> Environment:
    """production asks for a contract and an SRE's approval; any other name asks for nothing."""
    strict = name == "production"
    environment, _ = Environment.objects.get_or_create(
        name=name,
        defaults={"requires_contract": strict, "approval_rules": approval_rules("sre" * strict)},
    )
    return environment


def approval_rules(*roles: str) -> list[dict[str, Any]]:
    """One approval by a holder of each role, or of the seat of that name, not by an author."""
    return approval_documents.write_rules(role_rule(role) for role in roles if role)


def make_release(
    version: ModelVersion | None = None,
    environment: Environment | None = None,
    *,
    state: str = ReleaseState.APPROVED,
) -> Release:
    """A release asked for by dana; approved in production it carries sam's signature.

    Production takes the contract in force, made here when there is none.
    """
    version = version or make_version()
    environment = environment or make_environment()
    contract = None
    if environment.requires_contract:
        contract = ServiceContract.objects.filter(
            model=version.model, state=ContractState.IN_FORCE
        ).first() or make_contract(version.model)
    release_id, now = uuid.uuid4(), timezone.now()
    digests = release_payload.Digests(
        source=version.source.sha256,
        onnx=version.onnx.sha256,
        config=version.config.sha256,
        report=version.report_artifact.sha256,
        contract=contract.digest if contract else None,
        onnx_data=version.onnx_data.sha256 if version.onnx_data else None,
    )
    payload = release_payload.canonical(
        release_payload.ReleasePayload(
            release=str(release_id),
            model=version.model.name,
            version=version.number,
            environment=environment.name,
            digests=digests,
            requested_by="dana",
            requested_at=now,
        )
    )
    release = Release.objects.create(
        id=release_id,
        version=version,
        environment=environment,
        contract=contract,
        state=state,
        payload=payload,
        digest=digest(payload),
        digests=digests.named(),
        required_rules=environment.approval_rules,
        required_roles=environment.approver_roles,
        requested_by=people().dana,
        requested_at=now,
        decided_at=now if state == ReleaseState.APPROVED else None,
    )
    if state == ReleaseState.APPROVED:
        for role in environment.approver_roles:
            approver = people().ada if role == "platform_admin" else people().seats[role]
            ReleaseApproval.objects.create(
                release=release,
                role=role,
                roles=approver.roles,
                person=approver,
                key=signing.enrol(approver),
                approved=True,
                envelope=signing.release_envelope(approver, payload),
            )
    return release


def make_load_test(
    version: ModelVersion,
    environment: Environment | None = None,
    *,
    wait_ms: float = 3.0,
    failures: int = 0,
) -> LoadTest:
    """A load test that has ended: each of its answers took `wait_ms`, the first ones failed."""
    environment = environment or make_environment("staging")
    rates = load_tests.profile("step", 40, 10)
    tally = load_measurements.Tally(rates)
    for second, rate in enumerate(rates):
        for index in range(rate):
            due = second * 1_000_000 + index * 1_000_000 // rate
            outcome = "http_503" if tally.answered < failures else "ok"
            tally.add([(due, due + 200, due + int(wait_ms * 1000), outcome, 0)])
    if failures:
        tally.add_fault({"outcome": "http_503", "second": 0, "body": '{"code":"overloaded"}'})
    limits = load_tests.Limits()
    now = timezone.now()
    report = {
        "model": version.model.name,
        "version": version.number,
        "environment": environment.name,
        "pattern": "step",
        "rate": 40,
        "duration_s": 10,
        "requested_by": "dana",
        "started_at": (now - timedelta(seconds=12)).isoformat(),
        "ended_at": now.isoformat(),
        "digests": {"onnx": version.onnx.sha256, "config": version.config.sha256},
        "target": {"gateway": "embedded", "url": "http://127.0.0.1:8713/v2/models/m/infer"},
        "request_id": "load-test-0123456789ab",
        "generator": {"tool": "locust", "callers": 40, "counted": tally.answered, "cpu_s": 1.0},
        **load_measurements.report(tally, limits, batches=[1]),
    }
    return LoadTest.objects.create(
        version=version,
        environment=environment,
        pattern="step",
        rate=40,
        seconds=10,
        limit_p95_ms=limits.p95_ms,
        limit_success=limits.success,
        passed=report["passed"],
        report=report,
        report_html=make_artifact(b"<!doctype html><title>report</title>", "text/html"),
        requested_by=people().dana,
        ended_at=now,
    )
