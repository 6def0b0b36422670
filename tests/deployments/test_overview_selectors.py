from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from console.errors import NotFound
from console.models import Job, JobState
from console.services import job_runs
from deployments.models import Endpoint, Node, Placement, PlacementState
from deployments.selectors.overview import overview
from deployments.selectors.search import search
from deployments.selectors.traffic.endpoint_pages import endpoint_page
from deployments.selectors.traffic.endpoints import versions_running
from deployments.services.fleet.deploys import deploy_release
from deployments.services.traffic.splits import offer_first_traffic
from models_registry.models import ContractState, ReleaseState
from tests import factories
from tests.deployments.conftest import Fleet, ready_version

pytestmark = pytest.mark.django_db


def kinds(user: Any) -> list[str]:
    return sorted(item.kind for item in overview(user, timezone.now()).inbox)


def test_the_inbox_holds_what_waits_for_this_person_alone(fleet_rows: Fleet) -> None:
    people = factories.people()
    model = factories.make_model()
    version = factories.make_version(model)
    factories.make_contract(model)
    factories.make_contract(
        model, state=ContractState.PROPOSED, signed_by=("data_scientist",), load={"qps": 5}
    )
    factories.make_release(version, state=ReleaseState.PROPOSED)
    assert kinds(people.dana) == []
    assert kinds(people.sam) == ["contract", "release"]
    assert kinds(people.bea) == ["contract"]
    assert kinds(people.vic) == []


def test_a_failed_job_waits_for_who_asked_for_it(fleet_rows: Fleet) -> None:
    release = factories.make_release()
    deploy_release(release_id=release.pk, actor=fleet_rows.sam)
    job = Job.objects.get()
    job_runs.finish(job, JobState.FAILED, message="The disk is full.", code="disk_full")
    (item,) = overview(fleet_rows.sam.user, timezone.now()).inbox
    assert (item.kind, item.detail) == ("job", "The disk is full.")
    assert kinds(factories.people().bea) == []
    (row,) = overview(fleet_rows.sam.user, timezone.now()).nodes
    assert (row.name, row.failed) == ("local", 1)
    Node.objects.update(state="lost")
    assert overview(fleet_rows.sam.user, timezone.now()).nodes[0].state == "lost"


def test_search_finds_each_kind_by_name(fleet_rows: Fleet) -> None:
    ready_version(fleet_rows, factories.make_version())
    deploy_release(
        release_id=factories.make_release(factories.make_version()).pk, actor=fleet_rows.sam
    )

    user = factories.people().vic

    def found(text: str) -> dict[str, list[str]]:
        return {
            group.label: [hit.title for hit in group.items] for group in search(text, user=user)
        }

    assert found("fraud") == {
        "Models": ["fraud_detector"],
        "Endpoints": ["production/fraud_detector"],
        "Jobs": ["deploy fraud_detector v2 → production on local"],
    }
    assert found("fraud v2")["Versions"] == ["fraud_detector v2"]
    assert found("prod/fraud")["Endpoints"] == ["production/fraud_detector"]
    assert found("loc")["Nodes"] == ["local"]
    assert found("payments")["Models"] == ["fraud_detector"]
    assert found("  ") == found("zebra") == {}


def test_an_endpoint_says_why_a_version_cannot_be_raised(
    fleet_rows: Fleet, django_assert_max_num_queries: Any
) -> None:
    ready_version(fleet_rows, factories.make_version())
    failed = ready_version(fleet_rows, factories.make_version())
    Placement.objects.filter(pk=failed.pk).update(
        state=PlacementState.FAILED, detail="The smoke test failed."
    )
    offer_first_traffic(Endpoint.objects.get(), 1, fleet_rows.sam)
    # Two of them ask for what fires at the endpoint.
    with django_assert_max_num_queries(24):
        page = endpoint_page(
            "production", "fraud_detector", user=fleet_rows.sam.user, now=timezone.now()
        )
    first, second = page.versions
    assert (first.ready, first.nodes, first.percent) == (True, ["local"], 100)
    assert second.why_not == "It failed on local: The smoke test failed."
    assert [mode.mode for mode in page.modes if mode.allowed] == ["normal", "fallback", "open"]
    assert page.call is not None
    assert page.call.url.endswith("/v2/models/fraud_detector/infer")
    assert '"features"' in page.call.request
    assert [word.outcome for word in page.gateways] == ["absent"]
    Node.objects.update(state="lost")
    page = endpoint_page(
        "production", "fraud_detector", user=factories.people().vic, now=timezone.now()
    )
    assert page.versions[0].why_not == "Its node local is lost."
    running = versions_running(page.endpoint.model)
    assert (running[1][0].environment, running[1][0].percent) == ("production", 100)
    assert running[2][0].state == "failed"
    with pytest.raises(NotFound):
        endpoint_page("production", "nothing", user=factories.people().vic, now=timezone.now())
