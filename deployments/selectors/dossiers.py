"""One version's whole life on paper: what a regulator, or whoever comes in two years, asks for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db.models import Model, Prefetch, Q, QuerySet

from console.models import AuditCheckpoint, AuditEntry, AuditHead, User
from deployments.models import Deployment, Placement, SplitState, TrafficSplit
from models_registry.models import (
    ContractSignature,
    LoadTest,
    ModelVersion,
    Release,
    ReleaseApproval,
    ServiceContract,
)
from models_registry.selectors.catalog import SeatRow, seats_of
from models_registry.selectors.load_tests import load_test_list
from models_registry.selectors.versions import FileRow, files_of, find_version

Row = TypeVar("Row", bound=Model)

MOST_ROWS = 100
"""Of each kind; what is left out is counted."""

INCIDENTS = (
    "incident.open",
    "incident.escalate",
    "incident.resolve",
    "endpoint.escalate",
    "endpoint.rollback",
    "endpoint.mode",
    "placement.drift",
    "placement.failed",
    "release.break_glass",
    "contract.expire",
)


@dataclass(frozen=True, slots=True)
class Dossier:
    """Everything at the moment `at`; lists are newest first and hold at most `MOST_ROWS`."""

    at: datetime
    version: ModelVersion
    seats: tuple[SeatRow, ...]
    files: tuple[FileRow, ...]
    contract: ServiceContract | None
    signatures: tuple[ContractSignature, ...]
    releases: tuple[Release, ...]
    deployments: tuple[Deployment, ...]
    load_tests: tuple[LoadTest, ...]
    splits: tuple[TrafficSplit, ...]
    incidents: tuple[AuditEntry, ...]
    left_out: int
    audit_head: AuditHead
    checkpoint: AuditCheckpoint | None


def dossier(model_name: str, number: int, *, user: User, now: datetime) -> Dossier:
    """The dossier of one version, in 16 queries whatever it went through. Raises NotFound."""
    version = find_version(model_name, number, user=user)
    model = version.model
    releases, more_releases = _some(
        Release.objects.filter(version=version)
        .select_related("environment", "requested_by", "contract", "version__model")
        .select_related("break_glass__person", "break_glass__key", "break_glass__reviewed_by")
        .prefetch_related(
            Prefetch("approvals", ReleaseApproval.objects.select_related("person", "key"))
        )
    )
    contract = _contract(version, releases)
    deployments, more_deployments = _some(
        Deployment.objects.filter(release__version=version)
        .select_related("release__environment", "generation", "requested_by")
        .prefetch_related(Prefetch("placements", Placement.objects.select_related("node")))
    )
    splits, more_splits = _some(
        TrafficSplit.objects.filter(endpoint__model=model, weights__has_key=str(number))
        .exclude(state=SplitState.REFUSED)
        .select_related("endpoint__environment", "author")
        .order_by("-created_at", "-pk")
    )
    tests, more_tests = _some(load_test_list(model_name, number, user=user))
    incidents, more_incidents = _some(_incidents(model_name))
    return Dossier(
        at=now,
        version=version,
        seats=seats_of(model),
        files=files_of(version),
        contract=contract,
        signatures=tuple(contract.signatures.select_related("signer", "key")) if contract else (),
        releases=releases,
        deployments=deployments,
        load_tests=tests,
        splits=splits,
        incidents=incidents,
        left_out=more_releases + more_deployments + more_splits + more_tests + more_incidents,
        audit_head=AuditHead.objects.filter(id=1).first() or AuditHead(),
        checkpoint=AuditCheckpoint.objects.order_by("-sequence").first(),
    )


def _contract(version: ModelVersion, releases: tuple[Release, ...]) -> ServiceContract | None:
    """What the newest release promised; without a release, what the model promises now."""
    bound = next((release.contract for release in releases if release.contract), None)
    if bound is not None:
        return bound
    return ServiceContract.objects.holding().filter(model=version.model).first()


def _incidents(model_name: str) -> QuerySet[AuditEntry]:
    about = (
        Q(subject__startswith=f"{model_name} ")
        | Q(subject=model_name)
        | Q(subject__endswith=f"/{model_name}")
    )
    return AuditEntry.objects.filter(about, action__in=INCIDENTS).order_by("-sequence")


def _some(rows: QuerySet[Row]) -> tuple[tuple[Row, ...], int]:
    """The first rows, and how many more there are."""
    found = tuple(rows[: MOST_ROWS + 1])
    if len(found) <= MOST_ROWS:
        return found, 0
    return found[:MOST_ROWS], rows.count() - MOST_ROWS
