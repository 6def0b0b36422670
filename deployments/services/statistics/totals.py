"""Counters that only grow, kept with the minutes that they count."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from deployments.models import ServedTotal
from deployments.rules.statistics.rollups import Traffic
from deployments.rules.statistics.served_totals import with_histogram

_FIELDS = ["requests", "caller_faults", "provider_faults", "timed", "within"]


def add_to_totals(traffic: Mapping[tuple[int, int, datetime], Traffic]) -> None:
    """Add what is booked (endpoint, version, minute) to the totals; within the booking's
    transaction, so that both count the same requests."""
    sums: dict[tuple[int, int], Traffic] = {}
    for (endpoint, version, _minute), one in traffic.items():
        if one.requests or (one.latency is not None and one.latency.total):
            sums[(endpoint, version)] = sums.get((endpoint, version), Traffic()) + one
    if not sums:
        return
    ServedTotal.objects.bulk_create(
        [ServedTotal(endpoint_id=endpoint, version=version) for endpoint, version in sorted(sums)],
        ignore_conflicts=True,
    )
    rows = (
        ServedTotal.objects.select_for_update()
        .filter(endpoint_id__in={endpoint for endpoint, _ in sums})
        .order_by("pk")
    )
    grown = [row for row in rows if (row.endpoint_id, row.version) in sums]
    for row in grown:
        one = sums[(row.endpoint_id, row.version)]
        row.requests += one.requests
        row.caller_faults += one.caller_faults
        row.provider_faults += one.provider_faults
        if one.latency is not None and one.latency.total:
            row.timed += one.latency.total
            row.within = with_histogram(row.within, one.latency)
    ServedTotal.objects.bulk_update(grown, _FIELDS)
