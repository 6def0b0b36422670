"""Rules that come before the weights, and who has to move when weights change."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from console.errors import Conflict, Invalid
from deployments.models import Endpoint
from deployments.rules.gateways.state import HeaderRule
from deployments.selectors.traffic.routing import endpoint_states
from deployments.services.incidents.rollbacks import roll_back
from deployments.services.traffic.splits import set_split
from tests import factories
from tests.deployments.conftest import Fleet, ready_version

URL = "/endpoints/production/fraud_detector/routing/"


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    """Two versions that are ready; all traffic on the first."""
    model = factories.make_model()
    for _ in range(2):
        ready_version(fleet_rows, factories.make_version(model))
    move(fleet_rows, {1: 100, 2: 0})
    return Endpoint.objects.get()


def move(fleet: Fleet, weights: dict[int, int], **more: Any) -> Any:
    return set_split(
        environment="production",
        model="fraud_detector",
        weights=weights,
        expected_revision=None,
        reason="A test.",
        actor=fleet.sam,
        **more,
    )


def form(**given: Any) -> dict[str, Any]:
    """The page's form as a browser sends it, with one row of each kind."""
    frame = {
        f"{prefix}-{name}": value
        for prefix in ("rule", "tester")
        for name, value in (("TOTAL_FORMS", "1"), ("INITIAL_FORMS", "0"))
    }
    return {
        **frame,
        "sticky_header": "x-user-id",
        "mirror_percent": "100",
        "revision": "1",
        "reason": "The testers begin.",
        **given,
    }


def test_each_step_moves_its_share_alone(endpoint: Endpoint, fleet_rows: Fleet) -> None:
    steps = [move(fleet_rows, {1: 100 - share, 2: share}) for share in (5, 10, 50, 100)]
    assert [one.moved for one in steps] == [500, 500, 4000, 5000]
    assert [one.slices for one in steps][1] == [[1, 9000], [2, 1000]]
    assert endpoint_states([endpoint.environment_id])[0].slices == ((2, 10000),)


def test_testers_are_written_by_the_page_and_reach_the_gateways_first(
    endpoint: Endpoint, client: Client
) -> None:
    client.force_login(factories.people().sam)
    sent = form(
        **{
            "tester-0-caller": "qa-17",
            "tester-0-version": "2",
            "rule-0-header": "X-Exp-Id",
            "rule-0-value": "42",
            "rule-0-version": "2",
            "mirror_version": "2",
            "mirror_percent": "12.5",
        }
    )
    assert client.post(URL, sent).status_code == 302
    state = endpoint_states([endpoint.environment_id])[0]
    assert state.header_rules == (
        HeaderRule("x-user-id", "qa-17", 2),
        HeaderRule("x-exp-id", "42", 2),
    )
    assert state.mirror is not None
    assert (state.mirror.version, state.mirror.basis_points) == (2, 1250)
    assert state.weights == {1: 10000, 2: 0}
    page = client.get(URL).content.decode()
    assert "qa-17" in page
    sent |= {"revision": "2", "tester-INITIAL_FORMS": "1", "tester-0-DELETE": "on"}
    assert client.post(URL, sent).status_code == 302
    assert Endpoint.objects.get().current.testers == []  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"revision": "7"}, "has changed"),
        ({"reason": ""}, "required"),
        ({"tester-0-caller": "qa", "tester-0-version": ""}, "This field is required."),
        ({"rule-0-header": "x y", "rule-0-value": "1", "rule-0-version": "2"}, "name is not valid"),
    ],
)
def test_a_form_that_cannot_be_used_says_why_and_changes_nothing(
    given: dict[str, str], words: str, endpoint: Endpoint, client: Client
) -> None:
    client.force_login(factories.people().sam)
    changed = {"sticky_header": "x-account", **given}
    answer = client.post(URL, form(**changed))
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert Endpoint.objects.get().last_revision == 1


def test_who_may_only_look_sees_no_button(endpoint: Endpoint, client: Client) -> None:
    client.force_login(factories.people().bea)
    assert "Save the rules" not in client.get(URL).content.decode()
    assert client.post(URL, form()).status_code in (403, 422)
    assert Endpoint.objects.get().last_revision == 1


def test_testers_of_a_version_that_is_not_there_are_refused(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    with pytest.raises(Conflict, match="v9 ready"):
        move(fleet_rows, {1: 100}, testers=[{"caller": "qa", "version": 9}])
    twice = [{"caller": "qa", "version": 2}] * 2
    with pytest.raises(Invalid) as refused:
        move(fleet_rows, {1: 100}, testers=twice)
    assert refused.value.errors[0].pointer == "/testers/1"


def test_a_rollback_leaves_no_tester_behind(endpoint: Endpoint, fleet_rows: Fleet) -> None:
    pinned = [{"caller": "qa-1", "version": 1}, {"caller": "qa-2", "version": 2}]
    move(fleet_rows, {1: 50, 2: 50}, testers=pinned)
    back = roll_back(
        environment="production",
        model="fraud_detector",
        reason="It fails.",
        to=1,
        actor=fleet_rows.sam,
    )
    assert back.testers == pinned[:1]
