"""What Covenant measures by itself, so that nobody else's numbers are mixed into it."""

from __future__ import annotations

from collections.abc import Collection

from deployments.models import Endpoint, MeasuredSeries
from deployments.rules.telemetry.measuring import DRIFT, ENTROPY, PSI
from deployments.selectors.telemetry.shares import share_of_endpoint
from deployments.selectors.traffic.routing import contracts_that_hold
from models_registry.models import ReferenceSample


def measured_on_nodes(endpoints: Collection[int]) -> set[tuple[int, str]]:
    """(Endpoint, series) that nodes are asked for, of these endpoints; one query."""
    rows = MeasuredSeries.objects.filter(endpoint_id__in=endpoints, node__isnull=False)
    return {
        (endpoint, name)
        for endpoint, name in rows.order_by().values_list("endpoint_id", "name").distinct()
        if endpoint is not None
    }


def measured_here(endpoints: Collection[int]) -> set[tuple[int, int, str]]:
    """(Endpoint, version, series) that Covenant measures itself, of these endpoints.

    Those of the versions that have a training sample. Three queries.
    """
    rows = list(Endpoint.objects.filter(pk__in=endpoints).select_related("telemetry_setting"))
    contracts = contracts_that_hold({row.model_id for row in rows})
    measured = [row for row in rows if share_of_endpoint(row, contracts.get(row.model_id))]
    samples = ReferenceSample.objects.filter(
        version__model_id__in={row.model_id for row in measured}, replaced_at__isnull=True
    ).values_list("version__model_id", "version__number")
    by_model: dict[int, list[int]] = {}
    for model, number in samples:
        by_model.setdefault(model, []).append(number)
    found = set()
    for row in measured:
        for number in by_model.get(row.model_id, ()):
            found |= {(row.pk, number, name) for name in (DRIFT, PSI, ENTROPY)}
    return found
