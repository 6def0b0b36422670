"""What people choose to have measured of an endpoint's model."""

from __future__ import annotations

from django.db import transaction

from console import live
from console.actors import Actor, require
from console.errors import FieldError, Invalid, Stale
from console.services import audit
from deployments.models import TelemetrySetting
from deployments.rules.telemetry.measuring import USUAL_SHARE
from deployments.rules.traffic.splits import WHOLE
from deployments.services.gateways.desired import wake_gateways
from deployments.services.traffic.splits import locked_endpoint


def set_telemetry(
    *,
    environment: str,
    model: str,
    measured: bool,
    percent: float,
    expected_revision: int | None,
    actor: Actor,
    reason: str = "",
) -> TelemetrySetting:
    """Choose whether drift and entropy are measured without a promise, and of how many requests.

    `percent` of the endpoint's requests are copied, 0.01 to 100; it holds for what the contract
    promises, too, which is measured in any case. The same again is once.

    Raises Invalid (`invalid_share`), Stale when another revision is in force, NotFound,
    NotAllowed.
    """
    require(actor, "telemetry.change")
    basis_points = _basis_points(percent)
    with transaction.atomic():
        endpoint = locked_endpoint(environment, model, actor, "telemetry.change")
        row = TelemetrySetting.objects.select_for_update().filter(endpoint=endpoint).first()
        revision = row.revision if row else 0
        before = (row.measured, row.basis_points) if row else (False, USUAL_SHARE)
        if row is not None and before == (measured, basis_points):
            return row
        if expected_revision is not None and expected_revision != revision:
            raise Stale(
                f"What is measured of {endpoint} is revision {revision} by now.",
                hint="Look at it again, then make your change.",
            )
        if row is None:
            row = TelemetrySetting(endpoint=endpoint, revision=0)
        row.measured, row.basis_points, row.changed_by = measured, basis_points, actor.user
        row.revision += 1
        row.save()
        wake_gateways()
        live.publish(f"endpoint:{endpoint}", "telemetry.changed")
        audit.record(
            actor=actor,
            action="telemetry.change",
            subject=str(endpoint),
            subject_url=f"/endpoints/{endpoint}/telemetry/",
            reason=reason.strip(),
            before={"measured": before[0], "percent": before[1] / 100},
            after={"measured": measured, "percent": basis_points / 100},
        )
    return row


def _basis_points(percent: float) -> int:
    points = round(percent * 100) if 0 <= percent <= 100 else 0
    if not 1 <= points <= WHOLE:
        raise Invalid(
            "The share of requests that is looked at has to be 0.01 to 100 %.",
            code="invalid_share",
            errors=(FieldError("/percent", "0.01 to 100."),),
        )
    return points
