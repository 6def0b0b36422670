"""Experiments and comparisons by the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from deployments.models import Experiment
from deployments.services.experiments.comparisons import Slot, book_comparisons
from deployments.services.statistics.bookings import Entry
from tests.deployments.conftest import Fleet
from tests.deployments.test_cli import Run, run, signed_in  # noqa: F401
from tests.deployments.test_experiments_doors import count, figures, two

__all__ = ["two"]


@pytest.mark.django_db(transaction=True)
def test_the_command_line_does_the_same(two: Fleet, signed_in: Run) -> None:
    started = signed_in(
        "experiment", "start", "fraud_detector", "--name", "Checkout", "--outcome", "purchase",
        "--baseline", "1", "--candidate", "2", "--window", "1m",
    )  # fmt: skip
    assert started.code == 0, started.err
    experiment = Experiment.objects.get()
    count(experiment)
    shown = signed_in("experiment", "show", "fraud_detector", str(experiment.pk))
    assert "worse" in shown.out
    assert "difference: -5.00 points" in shown.out
    assert "Checkout" in signed_in("experiment", "list", "fraud_detector").out
    assert signed_in("experiment", "stop", "fraud_detector", str(experiment.pk)).code == 0
    nothing = signed_in("compare", "fraud_detector")
    assert nothing.code == 1
    assert "ever compared" in nothing.err
    minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=5)
    slot = Slot("production", "fraud_detector", 1, 2, minute)
    book_comparisons(Entry("edge:one", "comparisons", "a", 1, minute), {slot: figures(0.75)})
    compared = signed_in("compare", "fraud_detector")
    assert "1 of 1 sampled requests compared, 100.00 % differ" in compared.out
