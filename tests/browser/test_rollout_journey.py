"""A rollout in a real browser, over a real gateway and a real Triton."""

from __future__ import annotations

from datetime import UTC, datetime

from deployments.models import Rollout
from deployments.services.rollouts.engine import tick
from tests.browser.conftest import SignIn
from tests.browser.test_endpoint_journeys import served, two_versions  # noqa: F401
from tests.deployments.conftest import (  # noqa: F401
    Fleet,
    control,
    fleet_rows,
    live_fleet,
    run_jobs,
)
from tests.deployments.waiting import eventually

FORM = "/endpoints/production/fraud_detector/rollout/"


def goes_on_to(weight: int) -> bool:
    """Let the traffic control look once; whether the new version has this share by now."""
    tick(datetime.now(UTC))
    return bool(Rollout.objects.get().progress["weight"] == weight)


def test_an_sre_starts_a_rollout_watches_it_pauses_it_and_takes_it_back(
    two_versions: Fleet,
    sign_in: SignIn,
) -> None:
    tab = sign_in("sam", FORM)
    # The form's answer waits for the first share to be written, beside a Triton that is busy.
    tab.set_default_timeout(30_000)
    # The steps follow what is typed, before anything is started.
    for name, value in (("start", "10"), ("step", "45"), ("every", "1s")):
        tab.fill(f"#id_{name}", value)
    for name in ("max_error_rate", "max_p99_ms"):
        tab.fill(f"#id_{name}", "")
    tab.wait_for_selector("#rollout-steps >> text=3 steps")
    tab.wait_for_selector("text=Nothing is measured at the steps")
    tab.fill("#id_reason", "Retrained on new data.")
    tab.click("text=Start the rollout")
    tab.wait_for_selector("#rollout-state [data-state=running]")
    watching = sign_in("vic", tab.evaluate("location.pathname"))
    watching.set_default_timeout(30_000)

    eventually(lambda: goes_on_to(5500))
    # Who only looks sees the next share without a reload, and that the gateway has it.
    watching.wait_for_selector(".split-bar-legend >> text=55 %")
    assert set(served(two_versions)) == {"1", "2"}

    tab.click("#rollout-act-pause")
    tab.fill("#rollout-pause-reason", "Let us look first.")
    tab.click("#rollout-pause button[type=submit]")
    tab.wait_for_selector("text=It was paused by hand.")
    watching.wait_for_selector("#rollout-state [data-state=paused]")

    tab.click("#rollout-act-abort")
    tab.fill("#rollout-abort-reason", "It is not good.")
    tab.click("#rollout-abort button[type=submit]")
    tab.wait_for_selector("text=It was aborted by hand")
    watching.wait_for_selector("#rollout-state [data-state=aborted]")
    eventually(lambda: served(two_versions) == {"1": 40})
