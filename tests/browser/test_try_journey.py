"""Trying a version in a real browser: the answer appears below the form, and so does a refusal."""

from __future__ import annotations

from collections.abc import Callable

from console.models import Job
from deployments.services.fleet.deploys import deploy_release
from tests import factories
from tests.browser.conftest import SignIn
from tests.deployments.conftest import Fleet, fleet_rows, live_fleet, run_jobs  # noqa: F401

RunJobs = Callable[..., list[Job]]


def test_a_sample_is_sent_and_answered_in_place(
    live_fleet: Fleet,
    run_jobs: RunJobs,
    sign_in: SignIn,
) -> None:
    release = factories.make_release(factories.make_version(), live_fleet.staging)
    deploy_release(release_id=release.pk, actor=live_fleet.sam)
    assert {job.state for job in run_jobs()} == {"succeeded"}
    tab = sign_in("dana", "/models/fraud_detector/versions/1/")

    tab.click("#try-it button[type=submit]")
    tab.wait_for_selector("#try-answer .tone-ok")
    assert "It answers as it was recorded" in tab.inner_text("#try-answer")
    assert "risk_score" in tab.inner_text("#try-answer")

    written = '{"inputs": [{"name": "feature"}]}'
    tab.fill("#try-request", written)
    tab.click("#try-it button[type=submit]")
    tab.wait_for_selector("#try-answer .problem")
    assert "/inputs/0/name" in tab.inner_text("#try-answer")
    assert tab.input_value("#try-request") == written
