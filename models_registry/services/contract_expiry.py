"""Contracts that come to their last day: warned of, and marked once it is over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from console.actors import Actor
from models_registry.models import ContractState, ServiceContract
from models_registry.rules.contract_validity import (
    WARNING_DAYS,
    day_of,
    end_of,
    is_past,
    warning_due,
)
from models_registry.services.catalog import lock_model
from models_registry.services.contract_records import (
    end_notices,
    publish,
    record,
    tell_of_expiry,
    warn_of_expiry,
)

SOURCE = "timer"
OPEN = (ContractState.IN_FORCE, ContractState.PROPOSED)


@dataclass(frozen=True, slots=True)
class Watched:
    """What one round did: contracts marked as expired, people told of a last day ahead."""

    expired: int
    told: int


def watch_contracts(*, now: datetime) -> Watched:
    """Mark contracts and proposals whose last day is over, and warn of those that come to theirs.

    May run as often as one likes: a second round finds nothing to do. Nothing is taken down: what
    serves goes on by the expired contract until another takes its place.
    """
    today = day_of(now)
    dated = ServiceContract.objects.filter(state__in=OPEN, valid_until__isnull=False)
    over = dated.filter(valid_until__lt=today).order_by("pk").values_list("pk", flat=True)
    expired = sum(_expire(pk, now) for pk in list(over))
    ahead = dated.filter(
        state=ContractState.IN_FORCE,
        valid_until__gte=today,
        valid_until__lte=today + timedelta(days=max(WARNING_DAYS)),
    ).order_by("pk")
    told = sum(_warn(pk, now) for pk in list(ahead.values_list("pk", flat=True)))
    return Watched(expired, told)


def _expire(pk: int, now: datetime) -> int:
    with transaction.atomic():
        contract = _locked(pk)
        day = contract.valid_until
        if contract.state not in OPEN or day is None or not is_past(day, now):
            return 0
        before = contract.state
        contract.state, contract.ended_at = ContractState.EXPIRED, end_of(day)
        contract.save(update_fields=["state", "ended_at"])
        record(
            contract,
            "contract.expire",
            Actor.system(SOURCE),
            before={"state": before},
            after={"state": contract.state},
            reason=f"Its last day, {day} (UTC), is over.",
        )
        end_notices([contract])
        if before == ContractState.IN_FORCE:
            tell_of_expiry(contract)
        publish(contract)
    return 1


def _warn(pk: int, now: datetime) -> int:
    with transaction.atomic():
        contract = _locked(pk)
        days = warning_due(contract.valid_until, now)
        if contract.state != ContractState.IN_FORCE or days is None:
            return 0
        return warn_of_expiry(contract, days, now)


def _locked(pk: int) -> ServiceContract:
    """The contract under its model's lock, as proposing and signing take them."""
    contract = ServiceContract.objects.select_related("model").get(pk=pk)
    model = lock_model(contract.model)
    contract = ServiceContract.objects.select_for_update().get(pk=pk)
    contract.model = model
    return contract
