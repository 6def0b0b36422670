"""The page for 3 a.m. in a real browser, over a real gateway and a real Triton."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from console.models import Job
from deployments.models import Endpoint
from deployments.services.fleet.deploys import deploy_release
from tests import factories, stack
from tests.browser.conftest import SignIn
from tests.deployments.calling import infer

# The fleet of the tests of what runs: a node on the session's Triton, an Envoy under control.
from tests.deployments.conftest import Fleet, control, fleet_rows, live_fleet, run_jobs  # noqa: F401
from tests.deployments.waiting import eventually

PAGE = "/endpoints/production/fraud_detector/"
RunJobs = Callable[..., list[Job]]


@pytest.fixture
def two_versions(
    live_fleet: Fleet,
    control: stack.RunningEnvoy,
    run_jobs: RunJobs,
) -> Fleet:
    """Versions 1 and 2 are loaded in Triton; the first has all the traffic."""
    for bias in (0.0, 1.0):
        release = factories.make_release(factories.make_version(bias=bias), live_fleet.production)
        deploy_release(release_id=release.pk, actor=live_fleet.sam)
        assert {job.state for job in run_jobs()} == {"succeeded"}
    eventually(lambda: served(live_fleet, calls=1) == {"1": 1})
    return live_fleet


def served(fleet: Fleet, *, calls: int = 40) -> Counter[str]:
    """Who answers so many people."""
    answers = [infer(fleet.url(), "fraud_detector", user=f"u{n}") for n in range(calls)]
    return Counter(answer.headers.get("x-model-version", "") for answer in answers)


def test_an_sre_moves_traffic_by_the_sliders_and_rolls_back_by_the_key(
    two_versions: Fleet,
    sign_in: SignIn,
    run_jobs: RunJobs,
) -> None:
    tab = sign_in("sam", PAGE)
    watching = sign_in("vic", PAGE)
    tab.fill('[data-split-version="2"] input[type=number]', "50")
    tab.keyboard.press("Tab")
    tab.fill("#split-reason", "Half of the callers.")
    tab.click("[data-split-apply]")
    tab.wait_for_selector("[data-split-acks] li")

    assert set(served(two_versions)) == {"1", "2"}
    # Somebody who only looks gets the new split without a reload.
    watching.wait_for_function(
        "s => Number(document.querySelector(s).value) === 50",
        arg='[data-split-version="2"] input[type=number]',
    )

    tab.reload()
    tab.keyboard.press("r")
    tab.wait_for_selector("#rollback[open]")
    tab.fill("#rollback-reason", "Version 2 is wrong.")
    tab.click("#rollback button[type=submit]")
    tab.wait_for_selector("text=In effect on 1 gateway after")

    eventually(lambda: served(two_versions) == {"1": 40})
    assert {job.kind for job in run_jobs()} == {"rollback"}


def test_two_people_move_one_slider_and_the_second_is_told(
    two_versions: Fleet, sign_in: SignIn
) -> None:
    first, second = sign_in("sam", PAGE), sign_in("ada", PAGE)
    second.fill('[data-split-version="2"] input[type=number]', "10")
    second.keyboard.press("Tab")

    first.fill('[data-split-version="2"] input[type=number]', "50")
    first.keyboard.press("Tab")
    first.fill("#split-reason", "Half of the callers.")
    first.click("[data-split-apply]")
    first.wait_for_selector("[data-split-acks] li")

    second.wait_for_selector("[data-split-notice]:not([hidden])")
    endpoint = Endpoint.objects.select_related("current").get()
    assert endpoint.current is not None
    assert endpoint.current.weights == {"1": 5000, "2": 5000}


def test_fallback_answers_from_the_gateway_and_normal_brings_the_version_back(
    two_versions: Fleet, sign_in: SignIn
) -> None:
    tab = sign_in("sam", PAGE)
    tab.click('[data-confirm="mode-fallback"]')
    tab.fill("#mode-fallback-reason", "The model is down.")
    tab.click("#mode-fallback button[type=submit]")
    tab.wait_for_selector('[data-confirm="mode-normal"]')
    eventually(lambda: "x-covenant-fallback" in infer(two_versions.url(), "fraud_detector").headers)

    tab.click('[data-confirm="mode-normal"]')
    tab.fill("#mode-normal-reason", "It is back.")
    tab.click("#mode-normal button[type=submit]")
    tab.wait_for_selector('[data-confirm="mode-fallback"]')
    eventually(lambda: served(two_versions, calls=1) == {"1": 1})
