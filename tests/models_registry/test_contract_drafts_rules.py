"""A contract as a form and as YAML: each change means the same in both, and comments stay."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from console.errors import Invalid, NotFound
from models_registry.rules import contract_document, contract_proposal, contract_templates
from models_registry.rules.contract_clauses import missing_clauses
from models_registry.rules.contract_edits import Edit, edit_text
from models_registry.rules.contract_fields import act_of, edits_of, sections, shape_of
from models_registry.rules.contract_places import clauses, line_numbers, line_of
from models_registry.rules.contract_reading import read
from models_registry.rules.contract_yaml import load_yaml
from tests import factories

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
TEXT = """\
# Why eighty: checkout waits for it.
apiVersion: covenant/v1
kind: ServiceContract
model: fraud_detector
interface:
  inputs:
    - {name: features, dtype: FP32, dims: [batch, 10], min: -10, max: 10}
  outputs:
    - {name: risk_score, dtype: FP32, dims: [batch, 1], min: 0, max: 1}  # a probability
objectives:
  - {name: latency, threshold_ms: 80, target: 99.0, window: 28d}
errors: []
fallback: {response: {risk_score: 0.3, reason: 'model_down'}, rules: []}
logging: {required: [x_request_id], retention_days: 30}
drift:
  feature_drift_score: 0.3  # KS
"""


def form_of(text: str) -> dict[str, list[str]]:
    """What a browser sends of an untouched form."""
    found = sections(load_yaml(text))
    return {f.name: [f.value] for section in found for f in section.all_fields}


def typed(text: str, **changes: str) -> str:
    """The text after these controls were typed in: pointers with __ for /."""
    sent = form_of(text)
    for name, value in changes.items():
        sent["field:" + name.replace("__", "/")] = [value]
    found = sections(load_yaml(text))
    return edit_text(text, edits_of(found, sent)).text


def test_an_untouched_form_changes_nothing() -> None:
    for body in (TEXT, contract_proposal.to_yaml(factories.contract_body()), "", "model: 5"):
        assert edits_of(sections(load_yaml(body)), form_of(body)) == []


def test_a_field_changes_its_place_alone_and_comments_stay() -> None:
    text = typed(TEXT, __objectives__0__threshold_ms="120")
    assert text == TEXT.replace("threshold_ms: 80", "threshold_ms: 120")


@pytest.mark.parametrize(
    ("pointer", "value", "path", "meant"),
    [
        ("__load__qps", "2000", ("load", "qps"), 2000),
        ("__valid_until", "2027-06-30", ("valid_until",), "2027-06-30"),
        ("__logging__required", "a, b", ("logging", "required"), ["a", "b"]),
        (
            "__interface__inputs__0__dims",
            "batch, 12",
            ("interface", "inputs", 0, "dims"),
            ["batch", 12],
        ),
        ("__validation__derived__int8__atol", "5", ("validation", "derived", "int8", "atol"), 5),
        ("__fallback__response__reason", "null", ("fallback", "response", "reason"), None),
        ("__fallback__response__risk_score", "[1]", ("fallback", "response", "risk_score"), [1]),
        # What cannot be a number stays as typed: the schema says what is wrong with it.
        ("__load__qps", "many", ("load", "qps"), "many"),
    ],
)  # fmt: skip
def test_what_is_typed_is_what_stands_there(
    pointer: str, value: str, path: tuple[str | int, ...], meant: object
) -> None:
    text = typed(TEXT, **{pointer: value})
    found: object = load_yaml(text)
    for part in path:
        found = found[part]  # type: ignore[index]
    assert found == meant
    assert text.count("#") == TEXT.count("#")


def test_an_emptied_field_goes_and_takes_its_empty_section_along() -> None:
    text = typed(TEXT, __drift__feature_drift_score="")
    assert "drift" not in load_yaml(text)  # type: ignore[operator]
    assert "latency" not in typed(
        TEXT,
        __objectives__0__threshold_ms="",
        __objectives__0__target="",
        __objectives__0__window="",
    )


def test_an_objective_that_is_not_there_is_made_with_its_name() -> None:
    text = typed(TEXT, __objectives__1__target="99.9")
    assert load_yaml(text)["objectives"][1] == {"name": "availability", "target": 99.9}  # type: ignore[index,call-overload]


def test_rows_are_added_and_removed_and_the_form_knows_its_new_shape() -> None:
    body = load_yaml(TEXT)
    text = edit_text(TEXT, act_of(body, "add:/errors")).text
    text = edit_text(text, act_of(load_yaml(text), "add:/approvals", "production")).text
    text = edit_text(text, act_of(load_yaml(text), "remove:/fallback/response/reason")).text
    found: dict[str, dict[str, object]] = load_yaml(text)  # type: ignore[assignment]
    assert [error["status"] for error in found["errors"]] == [503]  # type: ignore[index]
    assert found["approvals"] == {"production": []}
    assert found["fallback"]["response"] == {"risk_score": 0.3}
    assert shape_of(sections(found)) != shape_of(sections(body))  # type: ignore[arg-type]
    assert act_of(body, "remove:/interface") == act_of(body, "add:/model") == []


def test_the_largest_contract_makes_a_form_that_the_web_takes() -> None:
    tensor = {"name": "x", "dtype": "FP32", "dims": ["batch"]}
    error = {"status": 503, "code": "x", "retry": True, "counts_against": "none"}
    body: dict[str, object] = {
        "interface": {"inputs": [tensor] * 64, "outputs": [tensor] * 64},
        "errors": [error] * 64,
        "fallback": {
            "response": {f"v{number}": 0 for number in range(128)},
            "rules": [{"name": "r", "when": "true", "response": {}}] * 32,
            "examples": [{"inputs": {}, "response": {}}] * 128,
        },
        "approvals": {f"e{number}": ["sre"] for number in range(32)},
    }
    found = sections(body)  # type: ignore[arg-type]
    controls = [field for section in found for field in section.all_fields]
    sent = sum(5 if field.kind == "roles" else 1 for field in controls)
    assert sent < 1000 - 20, "Django's DATA_UPLOAD_MAX_NUMBER_FIELDS"
    assert [rows.is_cut for section in found for rows in section.rows] == [True] * 6 + [False]


def test_rules_are_rows_of_the_form() -> None:
    body: dict[str, object] = {"fallback": {"response": {"score": 0.3}}}
    (added,) = act_of(body, "add:/fallback/rules")  # type: ignore[arg-type]
    assert added.path == ("fallback", "rules", 0)
    assert added.value == {"name": "", "when": "", "response": {"score": 0.3}}
    body["fallback"] = {"response": {"score": 0.3}, "rules": [added.value], "examples": []}
    found = sections(body)  # type: ignore[arg-type]
    sent = {"field:/fallback/rules/0/when": ["age > 3"]}
    sent["field:/fallback/rules/0/response"] = ['{"score": 0.5}']
    assert edits_of(found, sent) == [
        Edit(("fallback", "rules", 0, "when"), "age > 3"),
        Edit(("fallback", "rules", 0, "response"), {"score": 0.5}),
    ]
    (gone,) = act_of(body, "remove:/fallback/rules/0")  # type: ignore[arg-type]
    assert gone == Edit(("fallback", "rules", 0), remove=True)


@pytest.mark.parametrize("text", ["objectives: 5\n", "interface: [1]\n", "- a\n", "fallback: x\n"])
def test_yaml_of_another_form_is_shown_and_never_overwritten(text: str) -> None:
    edits = [
        Edit(("objectives", 0, "target"), 9),
        Edit(("fallback", "response", "a"), 1),
        Edit(("interface", "inputs", 0, "name"), "x"),
    ]
    with pytest.raises(Invalid) as refused:
        edit_text(text, edits)
    assert refused.value.code == "no_such_place"


def test_what_the_reader_of_yaml_refuses_the_form_never_sees() -> None:
    bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
    for text in (bomb, "model: a\nmodel: b\n", "model: !!python/none x\n", "a: [1\n"):
        found = read(text, model="fraud_detector", risk_class="low", now=NOW)
        assert not found.is_readable
        assert found.faults[0].line >= 1
        with pytest.raises(Invalid):
            edit_text(text, [Edit(("model",), "x")])
    with pytest.raises(Invalid) as refused:
        edit_text("a: b\n" * 20_000, [Edit(("model",), "x")])
    assert refused.value.code == "too_large_for_form"


def test_each_fault_has_its_line_or_that_of_the_nearest_place() -> None:
    text = TEXT.replace("threshold_ms: 80, ", "").replace("retention_days: 30", "retention_days: x")
    found = read(text, model="fraud_detector", risk_class="low", now=NOW)
    assert {(fault.pointer, fault.line) for fault in found.faults} == {
        ("/objectives/0/threshold_ms", 11),
        ("/logging/retention_days", 14),
    }
    assert line_of("/errors/3/code", line_numbers(TEXT)) == 12


def test_what_keeps_a_sound_document_from_being_proposed_is_told_with_it() -> None:
    found = read(TEXT, model="churn_model", risk_class="high", now=NOW)
    assert found.document is not None
    assert {error.code for error in found.errors} == {"other_model", "clauses_missing"}
    assert {"/model", "/explanation/method", "/valid_until"} <= {f.pointer for f in found.faults}
    assert read(TEXT, model="fraud_detector", risk_class="low", now=NOW).is_sound


def test_clauses_are_called_as_people_call_them() -> None:
    paths = {clause.pointer: clause.path for clause in clauses(factories.contract_body())}
    assert paths["/objectives/0/threshold_ms"] == "objectives › latency › threshold_ms"
    assert paths["/errors/1"] == "errors › 503 model_unavailable"
    assert paths["/fallback/response/risk_score"] == "fallback › response › risk_score"
    assert "/apiVersion" not in paths


@pytest.mark.parametrize("template", contract_templates.TEMPLATES, ids=lambda one: one.key)
def test_every_template_is_a_contract_once_it_is_filled(
    template: contract_templates.Template,
) -> None:
    proposal = contract_proposal.propose(
        model="fraud_detector", inputs=factories.INPUTS, outputs=factories.OUTPUTS
    )
    text = contract_templates.fill(
        template.key, model="fraud_detector", today=date(2026, 12, 1), proposal=proposal
    )
    document = contract_document.load(text, "yaml")
    assert "#" in text
    assert document.fallback_outputs.keys() == {"risk_score"}
    assert document.interface.inputs[0].name == "features"
    for risk in template.risk_classes:
        assert missing_clauses(document, risk, proposed_on=date(2026, 12, 1)) == (), risk
    # A version that was measured slower than the template asks for gets what it can keep.
    slow = contract_templates.fill(
        template.key, model="m_1", today=date(2026, 12, 1), proposal=proposal,
        promise=(90_000, 144_000),
    )  # fmt: skip
    kept = contract_document.load(slow, "yaml")
    assert kept.latency is not None
    assert (kept.latency.threshold_ms, kept.validation.p95_ms) == (144_000, 90_000)


def test_templates_come_by_risk_class_and_each_class_has_one() -> None:
    for risk in ("low", "medium", "high"):
        found = contract_templates.templates_for(risk)
        assert risk in found[0].risk_classes
        assert len(found) == len(contract_templates.TEMPLATES)
    with pytest.raises(NotFound):
        contract_templates.fill("nothing", model="m_1", today=date(2026, 12, 1))
