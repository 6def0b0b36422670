"""Asking for a lighter variant: who may, of what, twice, over the API and on the page."""

from __future__ import annotations

import pytest

from console.errors import Conflict, Invalid, NotAllowed
from console.models import AuditEntry, Job
from models_registry.models import ModelVersion, VersionFile, VersionState
from models_registry.selectors.variants import family_of
from models_registry.services.optimisations import optimise_version
from models_registry.services.versions import url_of
from tests import factories
from tests.factories import actor
from tests.models_registry.api import Caller
from tests.models_registry.browsing import Visitor
from tests.models_registry.reports import check, report_of, reported

pytestmark = pytest.mark.django_db

VARIANTS = "/models/fraud_detector/versions/1/variants/"
ADDRESS = "/models/fraud_detector/versions/1/optimisations/"


@pytest.fixture
def dana() -> factories.Actor:
    return actor(factories.people().dana)


def made(origin: ModelVersion, how: str = "fp16", **changes: object) -> ModelVersion:
    """A validated variant with a report of its own, half as large and twice as fast."""
    version, _ = optimise_version(
        version=origin, optimisation=how, actor=actor(factories.people().dana)
    )
    report = report_of("warning", check("latency", "warning"))
    report["equivalence"]["outputs"][0]["max_abs"] = 0.0031
    for row in report["latency"]:
        row["p50_ms"] /= 2
    facts = {**origin.facts, "size_bytes": origin.facts["size_bytes"] // 2}
    ModelVersion.objects.filter(pk=version.pk).update(
        state=VersionState.VALIDATED, onnx=origin.onnx, config=origin.config,
        report_artifact=origin.report_artifact, facts=facts, report=report,
        **changes,
    )  # fmt: skip
    return ModelVersion.objects.get(pk=version.pk)


def test_a_variant_is_the_next_version_and_a_double_click_makes_one(dana: factories.Actor) -> None:
    origin = factories.make_version()
    VersionFile.objects.create(version=origin, name="weights.bin", artifact=origin.source)
    version, job = optimise_version(version=origin, optimisation="fp16", actor=dana)
    assert (version.number, version.derived_from, version.optimisation) == (2, origin, "fp16")
    assert (version.source_id, version.sample_id) == (origin.source_id, origin.sample_id)
    assert [file.name for file in version.files.all()] == ["weights.bin"]
    assert (job.kind, job.subject) == ("export", "fraud_detector v2")
    again, same = optimise_version(version=origin, optimisation="fp16", actor=dana)
    assert (again.pk, same.pk) == (version.pk, job.pk)
    other, _ = optimise_version(version=origin, optimisation="fp16", keep_io=False, actor=dana)
    assert other.number == 3
    entry = AuditEntry.objects.get(action="version.derive", subject="fraud_detector v2")
    assert (entry.after["optimisation"], entry.after["derived_from"]) == ("fp16", 1)
    ModelVersion.objects.filter(pk=version.pk).update(state=VersionState.REJECTED)
    anew, _ = optimise_version(version=origin, optimisation="fp16", actor=dana)
    assert anew.number == 4


def test_what_cannot_be_made_lighter_is_refused_before_a_version_exists(
    dana: factories.Actor,
) -> None:
    origin = factories.make_version()
    variant, _ = optimise_version(version=origin, optimisation="graph", actor=dana)
    with pytest.raises(Conflict) as refused:
        optimise_version(version=variant, optimisation="int8", actor=dana)
    assert refused.value.code == "version_not_validated"
    with pytest.raises(Conflict) as refused:
        optimise_version(version=made(origin, "int8"), optimisation="fp16", actor=dana)
    assert refused.value.code == "version_is_derived"
    assert "v1" in refused.value.hint
    count = ModelVersion.objects.count()
    for changes, how, code in (
        ({"operators": {"ai.onnx.ml:TreeEnsembleRegressor": 1}}, "int8", "nothing_to_quantise"),
        ({"operators": {"ai.onnx.ml:TreeEnsembleRegressor": 1}}, "fp16", "nothing_to_convert"),
        ({"opset": 9}, "int8", "opset_too_old"),
        ({}, "smaller", "unknown_optimisation"),
    ):
        other = factories.make_version()
        ModelVersion.objects.filter(pk=other.pk).update(facts={**other.facts, **changes})
        with pytest.raises(Invalid) as invalid:
            optimise_version(version=other, optimisation=how, actor=dana)
        assert invalid.value.code == code
        assert invalid.value.hint
    large = factories.make_version()
    ModelVersion.objects.filter(pk=large.pk).update(onnx_data=large.onnx)
    with pytest.raises(Conflict) as refused:
        optimise_version(version=large, optimisation="fp16", actor=dana)
    assert refused.value.code == "version_too_large"
    assert ModelVersion.objects.filter(derived_from__isnull=False).count() == 2
    assert ModelVersion.objects.count() == count + 5


def test_only_makers_with_a_part_in_the_model_may(dana: factories.Actor) -> None:
    origin = factories.make_version()
    people = factories.people()
    outsider = factories.make_user("dora", "data_scientist")
    for user in (people.sam, people.vic, outsider):
        with pytest.raises(NotAllowed):
            optimise_version(version=origin, optimisation="fp16", actor=actor(user))
    assert not Job.objects.exists()


def test_the_api_gives_the_version_its_job_and_its_origin() -> None:
    factories.make_version()
    caller = Caller(factories.people().dana)
    answer = caller.post(ADDRESS, {"optimisation": "int8", "notes": "For the edge."})
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert (body["number"], body["derived_from"], body["optimisation"]) == (2, 1, "int8")
    assert body["job"] == str(Job.objects.get(kind="export").pk)
    assert caller.post(ADDRESS, {"optimisation": "int8"}).json()["number"] == 2
    listed = caller.get("/models/fraud_detector/versions/").json()["results"]
    assert [(one["derived_from"], one["optimisation"]) for one in listed] == [
        (1, "int8"),
        (None, ""),
    ]
    wrong = caller.post(ADDRESS, {"optimisation": "int4"})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/optimisation")
    types = caller.post(ADDRESS, {"optimisation": "int8", "keep_io": False})
    assert (types.status_code, types.json()["errors"][0]["pointer"]) == (422, "/keep_io")
    assert Caller(factories.people().vic).post(ADDRESS, {"optimisation": "fp16"}).status_code == 403


def test_the_page_compares_variants_with_the_original_and_makes_new_ones() -> None:
    origin = reported()
    variant = made(origin)
    dana, vic = Visitor(factories.people().dana), Visitor(factories.people().vic)
    for address in (url_of(origin), url_of(variant)):
        shown = dana.get(address)
        for words in (
            "Lighter variants",
            "Half precision (FP16)",
            "3.1e-3",
            "−50 %",
            "P50, batch 8",
            "Dynamic INT8 quantisation",
        ):
            assert words in shown, words
    assert url_of(variant) in dana.get(url_of(origin)).links
    assert "ONNX of v1" in dana.get(url_of(variant))
    assert "fp16 of v1" in dana.get("/models/fraud_detector/")
    assert VARIANTS in dana.get(VARIANTS, part=True).forms
    assert VARIANTS not in vic.get(VARIANTS, part=True).forms
    went = dana.post(VARIANTS, {"optimisation": "int8"})
    assert went.address == "/models/fraud_detector/versions/3/"
    assert "being made" in dana.said()
    refused = dana.post("/models/fraud_detector/versions/2/variants/", {"optimisation": "int8"})
    assert refused.address == url_of(variant)
    assert "is itself a variant" in dana.said()
    assert vic.post(VARIANTS, {"optimisation": "graph"}).status == 403


def test_a_family_has_the_figures_of_each_report() -> None:
    origin = reported()
    variant = made(origin)
    family = family_of(variant)
    assert family.original.version == origin
    assert family.batches == (1, 8)
    (row,) = family.variants
    assert (row.size_share, row.p50_share) == (pytest.approx(0.5, rel=0.01), 0.5)
    assert (row.max_abs, row.verdict) == (0.0031, "warning")


def test_a_family_stays_short_however_often_somebody_asked() -> None:
    origin = reported()
    kept = made(origin)
    for number in range(40):
        last = ModelVersion.objects.get(pk=kept.pk)
        last.pk, last.number, last.state = None, 10 + number, VersionState.REJECTED
        last.export_job = last.validate_job = None
        last.save()
    family = family_of(origin)
    assert len(family.variants) == 20
    assert family.variants[0].version == kept
    assert [row.version.number for row in family.variants[-2:]] == [48, 49]
