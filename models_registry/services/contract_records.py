"""What is written and told about a contract: audit entries, live events, notices to its people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from console import live
from console.actors import Actor
from console.models import Severity, User
from console.services import audit, notices
from models_registry.models import RegisteredModel, SeatHolder, ServiceContract
from models_registry.rules.contract_changes import Change
from models_registry.rules.contract_clauses import Clause
from models_registry.rules.contract_validity import WARNING_DAYS, days_left
from models_registry.services.key_effects import contract_notice


def subject_of(contract: ServiceContract) -> str:
    """How audit entries name the contract."""
    return f"{contract.model.name} contract {contract.revision}"


def url_of(contract: ServiceContract) -> str:
    """The contract's page."""
    return f"/models/{contract.model.name}/contracts/{contract.revision}/"


def record(
    contract: ServiceContract,
    action: str,
    actor: Actor,
    *,
    before: Any = None,
    after: Any = None,
    reason: str = "",
) -> None:
    """The audit entry of what happened to the contract, in the caller's transaction."""
    audit.record(
        actor=actor,
        action=action,
        subject=subject_of(contract),
        subject_url=url_of(contract),
        before=before,
        after=after,
        reason=reason,
    )


def publish(contract: ServiceContract) -> None:
    """Pages that show the contract, and the inboxes of its seats, look again."""
    name = contract.model.name
    data = {"model": name, "revision": contract.revision, "state": contract.state}
    live.publish(f"contract:{name}/{contract.revision}", "contract.changed", data)
    live.publish(f"model:{name}", "contract.changed", data)
    for username in _seated(contract.model).values_list("user__username", flat=True):
        live.publish(f"inbox:{username}", "inbox.changed")


def people_of(model: RegisteredModel) -> list[User]:
    """The three seats and the owner, each once: who is told of what happens to the promise."""
    seated = [holder.user for holder in _seated(model).select_related("user")]
    return list({person.pk: person for person in (*seated, model.owner)}.values())


def tell_of_breaking_changes(contract: ServiceContract, breaking: Sequence[Change]) -> None:
    """Tell the seats, who are to sign, that callers would break."""
    seats = [holder.user for holder in _seated(contract.model).select_related("user")]
    _tell(
        contract,
        seats,
        kind="contract.breaking",
        key=_breaking_key(contract),
        severity=Severity.WARNING,
        data={"count": len(breaking), "first": breaking[0].sentence},
    )


def warn_of_expiry(contract: ServiceContract, days: int, now: datetime) -> int:
    """Tell seats and owner, once for each of `WARNING_DAYS`; gives how many did not know."""
    if contract.valid_until is None:
        return 0
    return _tell(
        contract,
        people_of(contract.model),
        kind="contract.expires",
        key=_expires_key(contract, days),
        severity=Severity.WARNING,
        data={
            "days": days_left(contract.valid_until, now),
            "valid_until": str(contract.valid_until),
        },
    )


def tell_of_expiry(contract: ServiceContract) -> None:
    """Tell seats and owner that the promise has ended and that nothing took its place."""
    _tell(
        contract,
        people_of(contract.model),
        kind="contract.expired",
        key=_expired_key(contract),
        severity=Severity.CRITICAL,
        data={"valid_until": str(contract.valid_until)},
    )


def tell_of_missing_clauses(contract: ServiceContract, missing: Sequence[Clause]) -> None:
    """Tell seats and owner what the model's risk class asks for, or that nothing is missing now."""
    if not missing:
        notices.end(key=_clauses_key(contract))
        return
    _tell(
        contract,
        people_of(contract.model),
        kind="contract.clauses",
        key=_clauses_key(contract),
        severity=Severity.WARNING,
        data={
            "risk_class": contract.model.risk_class,
            "missing": [clause.asks for clause in missing],
        },
    )


def end_notices(contracts: Iterable[ServiceContract]) -> None:
    """What was told about contracts that are no longer proposed or in force leaves the inboxes."""
    for contract in contracts:
        keys = [
            _breaking_key(contract),
            _clauses_key(contract),
            _expired_key(contract),
            contract_notice(contract),
        ]
        for key in (*keys, *(_expires_key(contract, days) for days in WARNING_DAYS)):
            notices.end(key=key)


def end_signing_notices(contract: ServiceContract) -> None:
    """Nobody has to sign the contract any more."""
    notices.end(key=_breaking_key(contract))


def _seated(model: RegisteredModel) -> Any:
    return SeatHolder.objects.filter(model=model)


def _tell(
    contract: ServiceContract,
    people: Sequence[User],
    *,
    kind: str,
    key: str,
    severity: str,
    data: dict[str, Any],
) -> int:
    return notices.notify(
        people=people,
        kind=kind,
        key=key,
        subject=subject_of(contract),
        subject_url=url_of(contract),
        severity=severity,
        data={"model": contract.model.name, "revision": contract.revision, **data},
    )


def _breaking_key(contract: ServiceContract) -> str:
    return f"contract.breaking:{contract.pk}"


def _clauses_key(contract: ServiceContract) -> str:
    return f"contract.clauses:{contract.pk}"


def _expires_key(contract: ServiceContract, days: int) -> str:
    return f"contract.expires:{contract.pk}:{days}"


def _expired_key(contract: ServiceContract) -> str:
    return f"contract.expired:{contract.pk}"
