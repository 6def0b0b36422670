"""What `/metrics` tells of endpoints, nodes and GPUs, to readers who show a token."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils import timezone
from prometheus_client import Metric

from console.metrics import add_source
from console.models import User
from deployments.selectors.statistics.exported import metric_families


def collect(user: User) -> Iterator[Metric]:
    """The families that have samples, as the client library writes them."""
    for family in metric_families(user, timezone.now()):
        metric = Metric(family.name, family.help, family.kind)
        for suffix, labels, more, value in family.samples:
            named = dict(zip(family.labels, labels, strict=True)) | more
            metric.add_sample(family.name + suffix, named, value)
        yield metric


add_source(collect)
