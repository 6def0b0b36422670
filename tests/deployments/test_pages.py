"""Pages of what runs: what they show, what they offer to whom, and what their buttons do."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from deployments.models import Deployment, Endpoint, EndpointMode, NodeState
from deployments.services.traffic.splits import offer_first_traffic, set_split
from models_registry.models import ContractState, ReleaseState
from tests import factories
from tests.deployments.conftest import Fleet, applied, ready_version
from tests.models_registry.browsing import Visitor

pytestmark = pytest.mark.django_db

ENDPOINT = "/endpoints/production/fraud_detector/"


@pytest.fixture
def two(fleet_rows: Fleet) -> Fleet:
    """Two ready versions, all traffic moved from the first to the second."""
    first, second = factories.make_version(), factories.make_version(bias=1.0)
    factories.make_contract(first.model, state=ContractState.IN_FORCE)
    for version in (first, second):
        ready_version(fleet_rows, version)
    endpoint = Endpoint.objects.get()
    offer_first_traffic(endpoint=endpoint, number=1, actor=fleet_rows.sam)
    endpoint.refresh_from_db()
    assert endpoint.current is not None
    applied(endpoint.current)
    applied(
        set_split(
            environment="production",
            model="fraud_detector",
            weights={"2": 100},
            expected_revision=1,
            reason="Second version.",
            actor=fleet_rows.sam,
        )
    )
    return fleet_rows


@pytest.fixture
def sam(two: Fleet) -> Visitor:
    return Visitor(two.sam.user)


@pytest.fixture
def vic(two: Fleet) -> Visitor:
    return Visitor(factories.people().vic)


def test_the_endpoint_page_names_its_rollback_target_and_last_events(sam: Visitor) -> None:
    page = sam.get(ENDPOINT)

    assert page.status == 200
    assert "Roll back to v1" in page
    assert "Second version." in page
    assert "no traffic yet" in page


def test_a_viewer_sees_the_endpoint_and_is_offered_nothing(vic: Visitor) -> None:
    page = vic.get(ENDPOINT)

    assert page.status == 200
    assert "Roll back to v1" not in page
    assert f"{ENDPOINT}rollback/" not in page.forms
    assert "takes the role SRE or platform admin" in page


def test_rolling_back_by_the_page_moves_all_traffic_to_the_version_it_named(
    sam: Visitor,
) -> None:
    answer = sam.client.post(f"{ENDPOINT}rollback/", {"reason": "It fails.", "to": "1"})

    endpoint = Endpoint.objects.select_related("current").get()
    assert answer.status_code == 302
    assert endpoint.current is not None
    assert endpoint.current.weights == {"1": 10_000}
    assert endpoint.current.cause == "rollback"


def test_a_viewer_who_posts_anyway_changes_nothing(vic: Visitor) -> None:
    answer = vic.client.post(f"{ENDPOINT}rollback/", {"reason": "No.", "to": "1"}, follow=True)

    endpoint = Endpoint.objects.select_related("current").get()
    assert endpoint.current is not None
    assert endpoint.current.weights == {"2": 10_000}
    assert "may not roll back" in answer.content.decode()


def test_the_mode_is_switched_with_a_reason(sam: Visitor) -> None:
    sam.client.post(f"{ENDPOINT}mode/", {"mode": "fallback", "reason": "Model is down."})

    endpoint = Endpoint.objects.select_related("current").get()
    assert endpoint.current is not None
    assert endpoint.current.mode == EndpointMode.FALLBACK
    assert "Back to normal" in sam.get(ENDPOINT)


def test_an_endpoint_that_is_not_there_explains_itself(sam: Visitor) -> None:
    page = sam.get("/endpoints/production/unknown_model/")

    assert page.status == 404
    assert "There is no endpoint production/unknown_model." in page


def test_lists_answer_and_say_what_is_there(sam: Visitor) -> None:
    assert "fraud_detector" in sam.get("/endpoints/")
    assert "fraud_detector" in sam.get("/endpoints/", part=True)
    assert "local" in sam.get("/nodes/")
    assert "are answered within 80" in sam.get("/sla/")
    assert "fraud_detector" in sam.get("/")


def test_the_endpoint_list_takes_the_same_queries_for_one_and_for_many(
    two: Fleet, sam: Visitor
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert sam.get("/endpoints/", part=True).status == 200
        return len(seen)

    queries()
    before = queries()
    for number in range(20):
        model = factories.make_model(f"model_{number}", seats=False)
        Endpoint.objects.create(model=model, environment=two.staging)

    assert queries() == before


def test_the_promise_of_a_month_reads_in_both_languages(sam: Visitor) -> None:
    page = sam.get("/sla/production/fraud_detector/?month=2026-01")

    assert page.status == 200
    assert "January 2026" in page
    assert "Nobody called fraud_detector, so there is nothing to judge." in page
    assert sam.get("/sla/production/fraud_detector/", language="zh-hans").status == 200


def test_a_month_that_is_none_is_refused(sam: Visitor) -> None:
    assert sam.get("/sla/production/fraud_detector/?month=2026-13").status == 422


def test_a_node_is_cordoned_with_a_reason_and_taken_back(two: Fleet, sam: Visitor) -> None:
    sam.client.post("/nodes/local/cordon/", {"reason": "Fan is loud."})
    two.node.refresh_from_db()
    assert two.node.state == NodeState.CORDONED
    assert "Fan is loud." in sam.get("/nodes/local/")

    sam.client.post("/nodes/local/uncordon/")
    two.node.refresh_from_db()
    assert two.node.state == NodeState.READY


def test_a_deployment_that_carries_traffic_is_not_unloaded(sam: Visitor) -> None:
    deployment = Deployment.objects.get(release__version__number=2)

    answer = sam.client.post(
        f"/deployments/{deployment.pk}/remove/", {"reason": "Old."}, follow=True
    )

    deployment.refresh_from_db()
    assert deployment.removal_requested_at is None
    assert "v2" in answer.content.decode()


def test_an_unapproved_release_is_not_deployed_by_its_button(two: Fleet, sam: Visitor) -> None:
    version = factories.make_version(bias=2.0)
    release = factories.make_release(version, two.production, state=ReleaseState.PROPOSED)

    sam.client.post("/deployments/", {"release": str(release.pk)})

    assert not Deployment.objects.filter(release=release).exists()


def test_the_search_finds_a_model_and_its_endpoint(sam: Visitor) -> None:
    part = sam.get("/search/?q=fraud", part=True)

    assert "fraud_detector" in part
    assert ENDPOINT in part.links


def test_panels_of_other_pages_answer(sam: Visitor) -> None:
    release = Deployment.objects.get(release__version__number=2).release

    assert "production" in sam.get("/panels/models/fraud_detector/", part=True)
    assert "production" in sam.get("/panels/versions/fraud_detector/2/", part=True)
    assert sam.get(f"/panels/releases/{release.pk}/", part=True).status == 200
    assert sam.get("/panels/models/unknown_model/", part=True).status == 404
