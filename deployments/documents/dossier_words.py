"""A dossier in the reader's language: its sections as rows of text."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from console.errors import Invalid
from console.models import Role, User
from console.templatetags.console_phrases import phrase
from deployments.models import Deployment, SplitCause, TrafficSplit
from deployments.selectors.dossiers import Dossier, dossier
from deployments.services.dossiers import approval_holds, release_holds, signature_holds
from models_registry.models import Release, Seat
from models_registry.rules.contract_terms import terms
from models_registry.services.contract_checks import verify_bytes
from models_registry.views.contract_words import terms_in_words
from models_registry.views.version_words import check_line, range_text, shape_text, verdict_of


def dossier_context(name: str, number: int, *, user: User, now: datetime) -> dict[str, Any]:
    """What the dossier's templates show. Raises NotFound."""
    found = dossier(name, number, user=user, now=now)
    version = found.version
    report = version.report or {}
    return {
        "dossier": found,
        "version": version,
        "model": version.model,
        "verdict": verdict_of(version),
        "checks": [
            {**check_line(one), "word": _verdict(one["verdict"])}
            for one in report.get("checks", ())
        ],
        "tensors": _tensors(version.facts),
        "topics": _terms(found),
        "signatures": _signatures(found),
        "releases": [_release(release) for release in found.releases],
        "placements": _placements(found.deployments),
        "traffic": [_split(split, number) for split in found.splits],
        "summary": _summary(found),
    }


def _summary(found: Dossier) -> list[str]:
    """Where the version stands, in a few sentences."""
    version = found.version
    said = [
        _("%(version)s is %(state)s; the risk class of its model is %(risk)s.")
        % {
            "version": version,
            "state": version.get_state_display(),
            "risk": version.model.get_risk_class_display(),
        }
    ]
    live = sorted(
        {
            deployment.release.environment.name
            for deployment in found.deployments
            if deployment.removed_at is None
        }
    )
    said.append(
        _("It is deployed to %(where)s.") % {"where": ", ".join(live)}
        if live
        else _("It is deployed nowhere.")
    )
    if found.contract is None:
        said.append(_("No service contract binds it."))
    else:
        said.append(
            _("Revision %(revision)s of the service contract, %(state)s, binds it.")
            % {
                "revision": found.contract.revision,
                "state": found.contract.get_state_display(),
            }
        )
    broken = sum(1 for release in found.releases if getattr(release, "break_glass", None))
    if broken:
        said.append(_("It was released against the policy (break-glass)."))
    return said


def _verdict(verdict: str) -> str:
    words = {"passed": _("passed"), "warning": _("warning"), "failed": _("failed")}
    return words.get(verdict, _("told, not judged"))


def _terms(found: Dossier) -> list[dict[str, Any]]:
    if found.contract is None:
        return []
    try:
        return terms_in_words(terms(verify_bytes(found.contract)))
    except Invalid as error:
        return [{"title": _("The contract does not hold"), "sentences": [error.message]}]


def _signatures(found: Dossier) -> list[dict[str, Any]]:
    if found.contract is None:
        return []
    payload = bytes(found.contract.payload)
    return [
        {
            "seat": Seat(one.seat).label,
            "person": one.signer,
            "key": one.key,
            "at": one.signed_at,
            "holds": signature_holds(one, payload),
        }
        for one in found.signatures
    ]


def _release(release: Release) -> dict[str, Any]:
    return {
        "release": release,
        "holds": release_holds(release),
        "decisions": [
            {
                "role": Role(one.role).label,
                "person": one.person,
                "approved": one.approved,
                "reason": one.reason,
                "key": one.key,
                "at": one.at,
                "holds": approval_holds(one, release),
            }
            for one in release.approvals.all()
        ],
        "glass": getattr(release, "break_glass", None),
    }


def _placements(deployments: tuple[Deployment, ...]) -> list[dict[str, Any]]:
    return [
        {
            "environment": deployment.release.environment.name,
            "triton_model": deployment.generation.triton_model,
            "by": deployment.requested_by,
            "removed_at": deployment.removed_at,
            "placement": placement,
        }
        for deployment in deployments
        for placement in deployment.placements.all()
    ]


def _split(split: TrafficSplit, number: int) -> dict[str, Any]:
    return {
        "at": split.created_at,
        "environment": split.endpoint.environment.name,
        "share": split.weights.get(str(number), 0) / 100,
        "mode": split.mode,
        "cause": SplitCause(split.cause).label,
        "author": split.author,
        "reason": phrase(split.reason),
    }


def _tensors(facts: dict[str, Any]) -> list[dict[str, str]]:
    return [
        {
            "kind": kind,
            "name": one["name"],
            "dtype": one["dtype"],
            "shape": shape_text(one),
            "range": range_text(one),
        }
        for kind, side in ((_("Input"), "inputs"), (_("Output"), "outputs"))
        for one in facts.get(side, ())
    ]
