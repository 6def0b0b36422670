"""Starting a rollout by the form, and steering it by its page's buttons."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.models import AuditEntry
from deployments.models import Endpoint, Rollout, RolloutState
from deployments.rules.rollouts.plan import default_plan, parse_plan
from deployments.rules.rollouts.types import Pause
from models_registry.models import ContractState
from tests import factories
from tests.deployments.conftest import Fleet, applied, ready_version
from tests.deployments.test_rollouts_pages import endpoint_of, words
from tests.models_registry.browsing import Visitor

pytestmark = pytest.mark.django_db

FORM = "/endpoints/production/fraud_detector/rollout/"


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    found = endpoint_of(fleet_rows, "fraud_detector")
    factories.make_contract(found.model, state=ContractState.IN_FORCE)
    return found


@pytest.fixture
def sam(endpoint: Endpoint, fleet_rows: Fleet) -> Visitor:
    return Visitor(fleet_rows.sam.user)


def filled(**changes: Any) -> dict[str, Any]:
    """The form as a browser sends it when nothing was changed but the reason."""
    return {
        "version": "2",
        "baseline": "1",
        "start": "5",
        "step": "5",
        "every": "15m",
        "approval": "never",
        "max_error_rate": "1",
        "max_p99_ms": "80",
        "min_requests": "100",
        "interval": "1m",
        "failure_limit": "0",
        "fast": "on",
        "fast_max_error_rate": "1",
        "fast_max_p99_ms": "80",
        "fast_max_output_faults": "1",
        "opens": "09:00",
        "closes": "17:00",
        "time_zone": "UTC",
        "reason": "Retrained.",
    } | changes


def test_the_form_is_filled_with_what_the_contract_asks_for_and_shows_the_steps(
    sam: Visitor,
) -> None:
    page = sam.get(FORM)
    text = words(page)
    assert page.status == 200
    assert "As the contract asks" in text
    assert "20 steps; all the traffic after 4 h 45 min" in text
    # The field of the first step, then the contract's limits.
    assert "15m" in text
    assert "80" in text


def test_the_form_starts_the_rollout_that_it_stands_for(sam: Visitor) -> None:
    answer = sam.client.post(FORM, filled(start="10", step="30", approval="last"))

    rollout = Rollout.objects.get()
    assert answer.status_code == 302
    assert answer["Location"] == f"/rollouts/{rollout.pk}/"
    assert (rollout.version, rollout.baseline, rollout.reason) == (2, 1, "Retrained.")
    plan = parse_plan(rollout.plan)
    asked = [one for one in plan.steps if isinstance(one, Pause) and one.seconds is None]
    assert len(asked) == 1
    assert plan.background == default_plan().background
    assert AuditEntry.objects.filter(action="rollout.start", actor_username="sam").exists()
    # The first share is written at once.
    current = Endpoint.objects.select_related("current").get().current
    assert current is not None
    assert current.weights == {"1": 9000, "2": 1000}


@pytest.mark.parametrize(
    ("changes", "field", "words_"),
    [
        ({"start": "0"}, "start", "0.01"),
        ({"every": "soon"}, "every", "Write it as 90s, 15m or 1h."),
        ({"every": "40d"}, "every", "Between 1s and 30d."),
        ({"baseline": "2"}, "baseline", "Another version than the new one."),
        ({"version": "7"}, "version", "7"),
        ({"time_zone": "Nowhere", "days": "monday"}, "time_zone", "is no time zone"),
        ({"reason": ""}, "reason", "required"),
        ({"document": "steps: [{set_weight: 200}]"}, "document", "/steps/0/set_weight"),
        ({"document": "steps: {"}, "document", ""),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    sam: Visitor, changes: dict[str, str], field: str, words_: str
) -> None:
    answer = sam.client.post(FORM, filled(**changes))

    assert answer.status_code == 422
    errors = answer.context["form"].errors
    assert list(errors) == [field]
    assert words_ in " ".join(errors[field])
    assert not Rollout.objects.exists()


def test_the_preview_follows_what_is_typed_and_needs_no_reason(sam: Visitor) -> None:
    shown = sam.client.post(
        FORM, filled(start="50", step="50", reason="", preview="1"), headers={"HX-Request": "true"}
    )
    text = shown.content.decode()
    assert "2 steps" in text
    assert "<html" not in text
    wrong = sam.client.post(
        FORM, filled(every="x", reason="", preview="1"), headers={"HX-Request": "true"}
    )
    assert "Write it as 90s, 15m or 1h." in wrong.content.decode()
    assert not Rollout.objects.exists()


def test_a_plan_in_yaml_takes_the_place_of_the_fields(sam: Visitor) -> None:
    document = "steps:\n- set_weight: 20\n- pause: {}\nanalysis: false\n"
    sam.client.post(FORM, filled(document=document))
    plan = parse_plan(Rollout.objects.get().plan)
    assert [getattr(one, "points", None) for one in plan.steps] == [2000, None, 10_000]
    assert plan.background == ()


def test_where_a_rollout_is_under_way_the_form_leads_to_it(sam: Visitor) -> None:
    sam.client.post(FORM, filled())
    rollout = Rollout.objects.get()
    page = sam.get(FORM)
    assert "A rollout of v2 is under way here" in page
    assert f"/rollouts/{rollout.pk}/" in page.links
    endpoint_page = sam.get("/endpoints/production/fraud_detector/")
    assert f"/rollouts/{rollout.pk}/" in endpoint_page.links


def test_the_endpoint_and_the_version_lead_to_the_form(sam: Visitor) -> None:
    assert FORM in sam.get("/endpoints/production/fraud_detector/").links
    assert f"{FORM}?version=2" in sam.get("/panels/versions/fraud_detector/2/").links


def test_one_version_alone_is_told_what_is_missing(fleet_rows: Fleet) -> None:
    ready_version(fleet_rows, factories.make_version())
    page = Visitor(fleet_rows.sam.user).get(FORM)
    assert page.status == 200
    assert "A rollout needs two versions that are ready" in page


def test_a_viewer_may_look_at_the_form_and_start_nothing(endpoint: Endpoint) -> None:
    vic = Visitor(factories.people().vic)
    assert "takes the role SRE or platform admin" in vic.get(FORM)
    answer = vic.client.post(FORM, filled(), follow=True)
    assert "may not start a rollout" in answer.content.decode()
    assert not Rollout.objects.exists()


def test_the_buttons_pause_resume_skip_and_abort(sam: Visitor) -> None:
    sam.client.post(FORM, filled(start="10", step="30"))
    rollout = Rollout.objects.get()

    def press(act: str, reason: str = "Because.") -> str:
        answer = sam.client.post(f"/rollouts/{rollout.pk}/{act}/", {"reason": reason}, follow=True)
        rollout.refresh_from_db()
        return words(answer.content.decode())

    assert "The rollout is paused." in press("pause")
    assert rollout.state == RolloutState.PAUSED
    assert "The rollout goes on." in press("resume")
    assert rollout.state == RolloutState.RUNNING
    step = rollout.progress["step"]
    press("skip")
    assert rollout.progress["step"] == step + 1
    # Without a reason nothing is moved, and it is said why.
    assert "A reason is needed." in press("abort", reason="")
    assert rollout.state == RolloutState.RUNNING
    press("abort")
    assert rollout.state == RolloutState.ABORTED
    assert "was aborted" in press("promote")
    current = Endpoint.objects.select_related("current").get().current
    assert current is not None
    assert current.weights.get("2", 0) == 0
    kinds = list(rollout.events.values_list("kind", flat=True))
    assert [one for one in kinds if one in ("paused", "resumed", "skipped", "aborted")] == [
        "paused",
        "resumed",
        "skipped",
        "aborted",
    ]


def test_promote_gives_everything_at_once(sam: Visitor) -> None:
    sam.client.post(FORM, filled())
    rollout = Rollout.objects.get()
    sam.client.post(f"/rollouts/{rollout.pk}/promote/", {"reason": "It is good."})
    rollout.refresh_from_db()
    assert rollout.state == RolloutState.PROMOTED
    current = Endpoint.objects.select_related("current").get().current
    assert current is not None
    assert current.weights == {"2": 10_000}
    applied(current)
    page = words(sam.get(f"/rollouts/{rollout.pk}/"))
    assert "v2 has all the traffic." in page
    assert "not reached" in page


def test_the_form_takes_as_many_queries_for_many_versions(
    endpoint: Endpoint, fleet_rows: Fleet, sam: Visitor
) -> None:
    sam.get(FORM)
    with CaptureQueriesContext(connection) as few:
        sam.get(FORM)
    for bias in (2.0, 3.0, 4.0):
        ready_version(fleet_rows, factories.make_version(endpoint.model, bias=bias))
    with CaptureQueriesContext(connection) as many:
        sam.get(FORM)
    assert len(many) == len(few)
