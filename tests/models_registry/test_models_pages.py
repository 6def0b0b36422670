"""The model list at any size, one model with its people, and who is offered what."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.models import AuditEntry
from models_registry.models import ModelAlias, RegisteredModel, SeatHolder, ServiceContract
from models_registry.services.catalog import register_model, url_of
from tests import factories
from tests.factories import People, actor
from tests.models_registry.browsing import Visitor

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> People:
    return factories.people()


def many_models(people: People, count: int) -> None:
    RegisteredModel.objects.bulk_create(
        RegisteredModel(name=f"model_{number:05}", owner=people.dana, tags=["bulk"])
        for number in range(count)
    )


def test_an_empty_list_says_what_a_model_is_and_offers_the_first_step(people: People) -> None:
    for_a_maker = Visitor(people.dana).get("/models/")
    assert "No models yet" in for_a_maker
    assert "/models/new/" in for_a_maker.links
    assert "/models/new/" not in Visitor(people.bea).get("/models/").links


def test_the_list_costs_the_same_with_ten_models_and_with_ten_thousand(people: People) -> None:
    dana = Visitor(people.dana)
    many_models(people, 10)
    dana.get("/models/")

    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            assert dana.get("/models/").status == 200
        return len(seen)

    few = queries()
    RegisteredModel.objects.all().delete()
    many_models(people, 10_000)
    assert queries() == few
    assert few <= 8


def test_paging_reaches_every_model_once(people: People) -> None:
    many_models(people, 120)
    dana, address, seen = Visitor(people.dana), "/models/", []
    while address:
        shown = dana.get(address)
        seen += [link for link in shown.links if link.startswith("/models/model_")]
        following = [link for link in shown.links if "cursor=" in link]
        # The first of two pager links leads back.
        address = following[-1] if len(seen) < 120 else ""
        address = f"/models/{address}" if address else ""
    assert seen == [f"/models/model_{number:05}/" for number in range(120)]


def test_search_filters_and_order(people: People) -> None:
    factories.make_model("fraud_detector")
    register_model(name="churn_model", risk_class="high", tags=["sales"], actor=actor(people.ada))
    factories.make_version(RegisteredModel.objects.get(name="fraud_detector"))
    dana = Visitor(people.dana)

    def names(query: str) -> list[str]:
        shown = dana.get(f"/models/?{query}", part=True)
        return [
            link.split("/")[2]
            for link in shown.links
            if link.startswith("/models/") and link.count("/") == 3 and link != "/models/new/"
        ]

    assert names("") == ["churn_model", "fraud_detector"]
    assert names("sort=-name") == ["fraud_detector", "churn_model"]
    assert names("sort=versions") == ["fraud_detector", "churn_model"]
    assert names("q=fraud") == ["fraud_detector"]
    assert names("tag=sales") == ["churn_model"]
    assert names("risk_class=high") == ["churn_model"]
    assert names("state=validated") == ["fraud_detector"]
    assert names("mine=on") == ["fraud_detector"]
    assert "No model matches" in dana.get("/models/?q=nothing_like_it")


def test_registering_shows_the_fault_at_its_field_and_keeps_what_was_typed(people: People) -> None:
    dana = Visitor(people.dana)
    refused = dana.post(
        "/models/new/", {"name": "Fraud Detector", "risk_class": "low", "tags": "a, b"}
    )
    assert refused.status == 422
    assert "is not a model name" in refused
    assert "fraud_detector" in refused, "a name that would do is named"
    assert "Fraud Detector" in refused
    made = dana.post(
        "/models/new/", {"name": "fraud_detector", "risk_class": "low", "tags": "payments, eu"}
    )
    assert made.address == "/models/fraud_detector/"
    model = RegisteredModel.objects.get()
    assert (model.tags, model.owner) == (["payments", "eu"], people.dana)
    again = dana.post("/models/new/", {"name": "fraud_detector", "risk_class": "low"})
    assert "The name fraud_detector is taken." in again


def test_a_person_without_the_role_is_refused(people: People) -> None:
    refused = Visitor(people.vic).post("/models/new/", {"name": "mine", "risk_class": "low"})
    assert refused.status == 403
    assert "may not register a model" in refused


def test_a_model_shows_versions_contract_people_aliases_and_events(people: People) -> None:
    model = factories.make_model()
    first, second = factories.make_version(model), factories.make_version(model)
    contract = factories.make_contract(model)
    release = factories.make_release(first)
    dana = Visitor(people.dana)
    dana.post("/models/fraud_detector/aliases/", {"name": "champion", "number": "1"})
    shown = dana.get(url_of(model))
    assert shown.status == 200
    for address in (
        f"/models/fraud_detector/versions/{first.number}/",
        f"/models/fraud_detector/versions/{second.number}/",
        f"/models/fraud_detector/contracts/{contract.revision}/",
        f"/releases/{release.pk}/",
    ):
        assert address in shown.links
    for words in ("Sam", "Bea", "In force", "champion", "Alias set", "champion: v1"):
        assert words in shown
    part = dana.get(url_of(model), part=True)
    assert "Alias set" in part
    assert "<h1" not in part.response.content.decode()


def test_what_is_offered_follows_role_and_part(people: People) -> None:
    model = factories.make_model()
    factories.make_version(model)

    def offered(person: object) -> set[str]:
        links = Visitor(person).get(url_of(model)).links  # type: ignore[arg-type]
        acts = ("change/", "versions/new/", "contracts/new/", "seats/sre/")
        return {act for act in acts if f"/models/fraud_detector/{act}" in links}

    assert offered(people.dana) == {"change/", "versions/new/", "contracts/new/", "seats/sre/"}
    assert offered(people.sam) == {"contracts/new/"}
    assert offered(people.vic) == set()
    other = factories.make_user("dora", "data_scientist")
    assert offered(other) == set(), "a data scientist with no part in the model"


def test_a_seat_takes_a_person_with_its_role(people: People) -> None:
    model = factories.make_model()
    other = factories.make_user("sid", "sre")
    dana = Visitor(people.dana)
    page = dana.get("/models/fraud_detector/seats/sre/")
    assert "Sid" in page
    assert "Bea" not in page
    refused = dana.post("/models/fraud_detector/seats/sre/", {"user": "bea"})
    assert refused.status == 422
    assert dana.post("/models/fraud_detector/seats/sre/", {"user": "sid"}).status == 302
    assert SeatHolder.objects.get(model=model, seat="sre").user == other
    assert "sits in the seat SRE" in dana.said()
    stranger = Visitor(factories.make_user("dora", "data_scientist"))
    assert stranger.post("/models/fraud_detector/seats/sre/", {"user": "sam"}).status == 403


def test_an_alias_points_at_a_validated_version_only(people: People) -> None:
    model = factories.make_model()
    factories.make_version(model)
    factories.make_version(model, state="exporting")
    dana = Visitor(people.dana)
    address = "/models/fraud_detector/aliases/"
    assert "validated version" in dana.post(address, {"name": "champion", "number": "2"})
    assert "has no version 9" in dana.post(address, {"name": "champion", "number": "9"})
    assert dana.post(address, {"name": "champion", "number": "1"}).status == 302
    assert ModelAlias.objects.get().version.number == 1
    assert dana.post(f"{address}champion/remove/").status == 302
    assert not ModelAlias.objects.exists()


def test_what_is_said_of_a_model_can_be_changed(people: People) -> None:
    factories.make_model()
    dana = Visitor(people.dana)
    assert "payments" in dana.get("/models/fraud_detector/change/")
    changed = {"description": "Scores a payment.", "risk_class": "high", "tags": "eu"}
    assert dana.post("/models/fraud_detector/change/", changed).status == 302
    model = RegisteredModel.objects.get()
    assert (model.risk_class, model.tags) == ("high", ["eu"])
    assert AuditEntry.objects.filter(action="model.change").count() == 1


def test_a_model_that_is_not_there_is_said_to_be_so(people: People) -> None:
    shown = Visitor(people.dana).get("/models/unknown_model/")
    assert shown.status == 404
    assert "There is no model named unknown_model." in shown


def test_a_model_page_costs_the_same_with_many_versions(people: People) -> None:
    model = factories.make_model()
    factories.make_version(model)
    factories.make_contract(model)
    dana = Visitor(people.dana)
    dana.get(url_of(model))

    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            dana.get(url_of(model))
        return len(seen)

    few = queries()
    for _ in range(4):
        factories.make_version(model)
        factories.make_contract(model, load={"qps": ServiceContract.objects.count() + 1})
    assert queries() == few


def test_the_policy_of_an_environment_is_shown_to_all_and_changed_by_an_admin(
    people: People,
) -> None:
    factories.make_environment("production")
    shown = Visitor(people.vic).get("/environments/panel/", part=True)
    assert "production" in shown
    assert "A contract must be in force." in shown
    assert "/environments/production/change/" not in shown.links
    assert Visitor(people.dana).get("/environments/production/change/").status == 403
    ada = Visitor(people.ada)
    assert "production" in ada.get("/environments/production/change/")
    saved = ada.post(
        "/environments/production/change/",
        {
            "requires_contract": "on",
            "rule-TOTAL_FORMS": "1",
            "rule-INITIAL_FORMS": "0",
            "rule-0-count": "2",
            "rule-0-roles": ["sre", "business_owner"],
            "rule-0-excluded": ["uploader"],
        },
    )
    assert saved.address == "/settings/environments/"
    again = ada.get("/environments/panel/", part=True)
    assert "2 × SRE or Business owner, who did not upload it" in again
    rows = {"rule-TOTAL_FORMS": "0", "rule-INITIAL_FORMS": "0"}
    refused = ada.post("/environments/new/", {"name": "Not A Name", **rows})
    assert refused.status == 422
    assert "is not an environment" in refused
    assert ada.post("/environments/new/", {"name": "canary", **rows}).status == 302
