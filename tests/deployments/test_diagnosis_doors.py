"""Diagnoses at the doors: pages, API and command line."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from django.utils import timezone

from deployments.documents.diagnosis_words import NAMES, WORDS, told
from deployments.models import Diagnosis, PlacementState
from deployments.rules.diagnosis.findings import _CAUSES, Finding
from deployments.services.diagnosis.asking import request_diagnosis
from tests import factories
from tests.deployments.conftest import Fleet, ready_version


@pytest.fixture
def diagnosis(fleet_rows: Fleet) -> Diagnosis:
    """One that has ended: Triton did not know an operator."""
    placement = ready_version(fleet_rows, factories.make_version())
    placement.state = PlacementState.FAILED
    placement.save()
    version = placement.deployment.release.version
    asked = request_diagnosis(version=version, node=fleet_rows.node, actor=fleet_rows.sam)
    finding = Finding("operator_unknown", "bad", {"operator": "com.acme:Mul"}, "E1201 <failed>")
    asked.steps = [
        {"name": "log", "verdict": "bad", "findings": [finding.to_json()]},
        *(
            {"name": name, "verdict": "good", "findings": []}
            for name in ("config", "onnx", "compatibility", "files")
        ),
    ]
    asked.state, asked.cause, asked.ended_at = "found", "operator_unknown", timezone.now()
    asked.save()
    return asked


def test_its_page_says_what_was_found_and_how_to_mend_it(
    client: Client, diagnosis: Diagnosis
) -> None:
    client.force_login(factories.people().sam)
    page = client.get(f"/diagnoses/{diagnosis.pk}/").content.decode()
    assert "does not know the operator com.acme:Mul" in page
    assert "Replace it by standard operators" in page
    assert "E1201 &lt;failed&gt;" in page
    for name in NAMES.values():
        assert str(name) in page
    assert "Look again, and try to load it" in page
    listed = client.get("/diagnoses/?q=fraud").content.decode()
    assert "does not know the operator com.acme:Mul" in listed
    assert "No diagnosis matches" in client.get("/diagnoses/?q=other").content.decode()


def test_a_failed_placement_leads_to_it(client: Client, diagnosis: Diagnosis) -> None:
    client.force_login(factories.people().sam)
    page = client.get(f"/deployments/{diagnosis.deployment_id}/").content.decode()
    assert f"/diagnoses/{diagnosis.pk}/" in page
    Diagnosis.objects.all().delete()
    assert "Find out why" in client.get(f"/deployments/{diagnosis.deployment_id}/").content.decode()


def test_the_page_asks_for_one(client: Client, diagnosis: Diagnosis) -> None:
    client.force_login(factories.people().sam)
    body = {"model": "fraud_detector", "version": "1", "node": "local"}
    made = client.post("/diagnoses/", body)
    assert made.status_code == 302
    newest = Diagnosis.objects.latest("requested_at")
    assert made["Location"] == f"/diagnoses/{newest.pk}/"
    assert newest.job is not None
    assert newest.job.queue == "node.local"
    assert client.post("/diagnoses/", {**body, "version": "x"}).status_code == 404


def test_the_api_asks_and_tells(client: Client, diagnosis: Diagnosis) -> None:
    client.force_login(factories.people().sam)
    body = json.dumps({"model": "fraud_detector", "version": 1})
    made = client.post("/api/v1/diagnoses/", body, content_type="application/json")
    assert made.status_code == 202, made.content
    assert made.json()["node"] == "local", "where it last failed"
    found = client.get(f"/api/v1/diagnoses/{diagnosis.pk}/").json()
    assert found["because"]["code"] == found["cause"] == "operator_unknown"
    assert [step["name"] for step in found["steps"]] == list(NAMES)
    listed = client.get("/api/v1/diagnoses/?state=found").json()["results"]
    assert [one["id"] for one in listed] == [str(diagnosis.pk)]
    missing = json.dumps({"model": "fraud_detector", "version": 1, "node": "nowhere"})
    refused = client.post("/api/v1/diagnoses/", missing, content_type="application/json")
    assert refused.status_code == 404


def test_one_of_a_hidden_model_is_not_there(client: Client, diagnosis: Diagnosis) -> None:
    model = diagnosis.version.model
    model.visibility = "team"
    model.save()
    client.force_login(factories.people().vic)
    assert client.get(f"/diagnoses/{diagnosis.pk}/").status_code == 404
    assert client.get("/api/v1/diagnoses/").json()["results"] == []


@pytest.mark.parametrize("code", sorted(WORDS))
def test_every_finding_is_said_whatever_it_knows(code: str) -> None:
    words = told(Finding(code, "bad", {}))
    assert words.title
    assert "%(" not in words.title + words.mend


def test_every_cause_has_words() -> None:
    assert set(_CAUSES) - set(WORDS) == set()


def test_of_what_serves_nobody_asks_why_it_does_not_load(
    client: Client, diagnosis: Diagnosis
) -> None:
    finding = Finding("serves", "good")
    diagnosis.steps = [{"name": "log", "verdict": "good", "findings": [finding.to_json()]}]
    diagnosis.state, diagnosis.cause = "clean", ""
    diagnosis.save()
    client.force_login(factories.people().sam)
    page = client.get(f"/diagnoses/{diagnosis.pk}/").content.decode()
    assert "It is loaded and serves; nothing is wrong." in page
    assert "is loaded on local" in page
    assert "not load" not in page.split("</h1>")[0]
    assert "What was wrong" not in page
    diagnosis.steps = []
    diagnosis.save()
    page = client.get(f"/diagnoses/{diagnosis.pk}/").content.decode()
    assert "Does fraud_detector v1 load on local?" in page
