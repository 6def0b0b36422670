"""The dossier of a version: complete, verified for its reader, checkable without the console."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from django.test import Client
from django.utils import timezone
from pypdf import PdfReader
from rest_framework.test import APIClient

from console.models import AuditEntry, Job
from deployments.cli import offline
from deployments.documents.dossiers import dossier_pdf
from deployments.selectors.dossiers import dossier
from deployments.services.fleet.deploys import deploy_release
from models_registry.models import ContractSignature, ModelVersion, Release
from models_registry.services.boms import release_bom
from tests import factories
from tests.deployments.conftest import Fleet

Jobs = Callable[..., list[Job]]


@pytest.fixture
def release(fleet_rows: Fleet) -> Release:
    model = factories.make_model()
    factories.make_contract(model)
    version = factories.make_version(model)
    released = factories.make_release(version, fleet_rows.production)
    deploy_release(release_id=released.pk, actor=fleet_rows.sam)
    return released


def page(version: ModelVersion, *, language: str = "en") -> str:
    client = Client(headers={"accept-language": language})
    client.force_login(factories.people().vic)
    answer = client.get(f"/models/{version.model.name}/versions/{version.number}/dossier/")
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_page_says_who_signed_what_and_that_it_holds(release: Release) -> None:
    text = page(release.version)
    for said in (
        release.version.onnx.sha256, release.contract.digest, release.digest, "Bea (bea)",
        "Sam (sam)", "production: Approved", "It is deployed to production.",
    ):  # fmt: skip
        assert said in text, said
    assert "not valid" not in text
    assert "nobody" not in text, "each seat has its person"
    assert text.count(">valid<") == 5, "three seats, one approval, the release as a whole"


def test_a_signature_that_was_changed_is_named(release: Release) -> None:
    signature = ContractSignature.objects.get(seat="sre")
    sig = signature.envelope["signatures"][0]["sig"]
    signature.envelope["signatures"][0]["sig"] = ("B" if sig[0] == "A" else "A") + sig[1:]
    signature.save()
    text = page(release.version)
    assert text.count("<strong>not valid</strong>") == 2, "the seat's signature, and so the release"


def test_it_is_in_the_readers_language(release: Release) -> None:
    assert "模型治理档案" in page(release.version, language="zh-hans")


def test_a_version_without_contract_or_release_has_one(db: None) -> None:
    text = page(factories.make_version())
    for said in ("No service contract binds it.", "It was never asked to be released.", "None."):
        assert said in text


def test_its_queries_do_not_grow_with_what_happened(
    release: Release, django_assert_num_queries: Callable[..., object]
) -> None:
    vic, now = factories.people().vic, timezone.now()
    for _ in range(3):
        factories.make_load_test(release.version)
    with django_assert_num_queries(16):
        found = dossier("fraud_detector", 1, user=vic, now=now)
        assert len(found.load_tests) == 3
        assert [len(one.placements.all()) for one in found.deployments] == [1]


def attached(pdf: bytes) -> dict[str, bytes]:
    """The files inside a PDF."""
    found = PdfReader(io.BytesIO(pdf)).attachments
    return {name: data for name, [data] in found.items()}


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_pdf_carries_what_proves_it(release: Release, language: str) -> None:
    vic = factories.actor(factories.people().vic)
    data, filename = dossier_pdf(
        "fraud_detector", 1, language=language, now=timezone.now(), actor=vic
    )
    assert filename == f"fraud_detector-v1-dossier-{language}.pdf"
    assert data.startswith(b"%PDF-")
    inside = attached(data)
    bundles = [name for name in inside if name.endswith(".bundle.json")]
    assert len(bundles) == 2
    for name in bundles:
        report = offline.verify(inside[name])
        assert report.ok, [finding.text for finding in report.findings]
    [bom] = [name for name in inside if name.endswith(".cdx.json")]
    assert inside[bom] == release_bom(release)
    entry = AuditEntry.objects.get(action="dossier.export")
    assert (entry.actor_username, entry.after["language"]) == ("vic", language)


def test_the_pdf_shows_chinese_as_text(release: Release) -> None:
    vic = factories.actor(factories.people().vic)
    data, _ = dossier_pdf("fraud_detector", 1, language="zh-hans", now=timezone.now(), actor=vic)
    text = "".join(one.extract_text() for one in PdfReader(io.BytesIO(data)).pages)
    assert "模型治理档案" in text
    assert release.version.onnx.sha256[:20] in text.replace("\n", "")


def test_the_bill_of_materials_is_cyclonedx_and_says_what_was_measured(release: Release) -> None:
    client = APIClient()
    client.force_authenticate(factories.people().vic)
    answer = client.get(f"/api/v1/models/fraud_detector/releases/{release.pk}/bom/")
    assert answer["Content-Type"] == "application/vnd.cyclonedx+json"
    assert answer.content == release_bom(release), "the same release, the same bytes"
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(answer.content.decode()) is None
    bom = json.loads(answer.content)
    model = bom["metadata"]["component"]
    assert model["type"] == "machine-learning-model"
    assert model["hashes"] == [{"alg": "SHA-256", "content": release.version.onnx.sha256}]
    assert model["modelCard"]["modelParameters"]["inputs"] == [
        {"format": "features: FP32 [batch, 10]"}
    ]
    files = {one["bom-ref"]: one for one in bom["components"]}
    assert files["file:config"]["hashes"][0]["content"] == release.version.config.sha256
    said = {one["name"]: one["value"] for one in model["properties"]}
    assert said["covenant:contract_digest"] == release.contract.digest
    [tree] = [one for one in bom["dependencies"] if one["ref"] == "model"]
    assert set(tree["dependsOn"]) == set(files)


def test_who_may_not_see_the_model_gets_neither(release: Release) -> None:
    release.version.model.visibility = "team"
    release.version.model.save()
    client = APIClient()
    client.force_authenticate(factories.make_user("out", "data_scientist"))
    for path in (f"releases/{release.pk}/bom/", "versions/1/dossier.pdf"):
        assert client.get(f"/api/v1/models/fraud_detector/{path}").status_code == 404


def test_an_unknown_language_is_refused(release: Release) -> None:
    client = APIClient()
    client.force_authenticate(factories.people().vic)
    answer = client.get("/api/v1/models/fraud_detector/versions/1/dossier.pdf?lang=xx")
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_language")
