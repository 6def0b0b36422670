"""Differences between contracts: complete, and turned round when the two change places."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models_registry.rules.contract_changes import breaking_changes
from models_registry.rules.contract_diff import diff
from models_registry.rules.contract_document import from_json, schema
from models_registry.rules.contract_types import ContractDocument
from tests.models_registry.contract_samples import GONE, body, changed

FULL = changed(
    ("/valid_until", "2027-06-30"),
    ("/request", {"timeout_ms": 2000, "idempotent": False}),
    ("/explanation/method", "shap"),
    ("/interface/outputs/0/dims", ["batch", 2]),
    ("/interface/outputs/0/sums_to", 1),
    ("/fallback/response", {"risk_score": [0.3, 0.7], "reason": "model_down"}),
    ("/validation/derived", {"fp16": {"atol": 0.01, "rtol": 0.02}}),
    (
        "/fallback/rules",
        [
            {"name": "high", "when": "true", "response": {"risk_score": [0.9, 0.1], "reason": "h"}},
            {"name": "low", "when": "false", "response": {"risk_score": [0.1, 0.9], "reason": "l"}},
        ],
    ),
    ("/fallback/examples", [{"inputs": {}, "response": {"risk_score": [0.9, 0.1], "reason": "h"}}]),
)
# Another value for every place of a full contract where a value stands, valid in itself.
OTHERS: dict[str, tuple[Any, ...]] = {
    "/valid_until": ("2027-06-29", "2028-01-01", GONE),
    "/interface/inputs/0/name": ("columns",),
    "/interface/inputs/0/dtype": ("FP64",),
    "/interface/inputs/0/dims": (["batch", 9], ["batch", "width"], ["batch", 10, 1]),
    "/interface/inputs/0/min": (-9, -11, GONE),
    "/interface/inputs/0/max": (9, 11, GONE),
    "/interface/inputs/0/nan": ("allow",),
    "/interface/inputs/-": ({"name": "age", "dtype": "INT32", "dims": ["batch"]},),
    "/interface/outputs/0/dtype": ("FP64",),
    "/interface/outputs/0/dims": (["batch", "shares"],),
    "/interface/outputs/0/max": (2, GONE),
    "/interface/outputs/0/min": (-1, 0.1, GONE),
    "/interface/outputs/0/sums_to": (2, GONE),
    "/objectives/0/threshold_ms": (79, 81, 500),
    "/objectives/0/target": (98.9, 99.1, 50),
    "/objectives/0/window": ("calendar_month",),
    "/objectives/0": (GONE,),
    "/objectives/1/target": (99.89, 99.95, 60),
    "/objectives/1/window": ("7d",),
    "/load/qps": (1999, 2001, 1),
    "/load": (GONE,),
    "/errors/0": (GONE,),
    "/errors/0/status": (400,),
    "/errors/0/code": ("bad_input",),
    "/errors/0/retry": (True,),
    "/errors/0/counts_against": ("none",),
    "/errors/-": ({"status": 429, "code": "later", "retry": True, "counts_against": "none"},),
    "/fallback/response/risk_score": ([0.5, 0.5], 0.5),
    "/fallback/response/reason": ("down", 1, None, GONE),
    "/fallback/response/more": (True,),
    "/fallback/rules/0": (GONE,),
    "/fallback/rules/0/name": ("higher",),
    "/fallback/rules/0/when": ("features[0] > 1.0",),
    "/fallback/rules/0/response/risk_score": ([0.8, 0.2],),
    "/fallback/rules/0/response/reason": ("hh",),
    "/fallback/rules/-": (
        {"name": "more", "when": "true", "response": {"risk_score": [0.5, 0.5]}},
    ),
    "/fallback/examples/0/inputs/features": (1,),
    "/fallback/examples/0/response/reason": ("other",),
    "/fallback/examples/-": ({"inputs": {}, "response": {"risk_score": 1}},),
    "/logging/required/0": ("trace", GONE),
    "/logging/retention_days": (29, 31),
    "/drift": (GONE,),
    "/drift/feature_drift_score": (0.2, 0.4, GONE),
    "/drift/model_output_entropy": (GONE,),
    "/drift/model_output_entropy/above": (0.4, 0.6),
    "/drift/model_output_entropy/for": ("4m", "6m"),
    "/explanation/method": ("none",),
    "/validation/samples": (99, 101),
    "/validation/seed": (1,),
    "/validation/atol": (1e-6, 1e-4),
    "/validation/rtol": (1e-5, 1e-3),
    "/validation/p95_ms": (49, 51),
    "/validation/derived/fp16/atol": (0.009, 0.1),
    "/validation/derived/fp16/rtol": (0.01, 0.1),
    "/validation/derived/simplify": ({"atol": 1, "rtol": 0.5},),
    "/rollout/start": (4, 6),
    "/rollout/step": (4, 6),
    "/request": ({"timeout_ms": 900, "idempotent": True}, GONE),
    "/request/timeout_ms": (1000, 5000, GONE),
    "/request/idempotent": (True,),
    "/rollout/every": ("14m", "1h"),
    "/rollout/analysis/max_error_rate": (0.5, 2),
    "/rollout/analysis/max_p99_ms": (79, 81),
    "/rollout/analysis/min_requests": (99,),
    "/approvals/production": ([], ["business_owner"], ["sre", "business_owner"]),
    "/approvals/lab": (["sre"],),
}
# What each effect may become when the two documents change places.
TURNED = {
    "stronger": {"weaker", "breaking"},
    "weaker": {"stronger", "breaking"},
    "neutral": {"neutral", "breaking"},
    "breaking": {"stronger", "weaker", "neutral", "breaking"},
}
TURNED_KIND = {"added": "removed", "removed": "added", "changed": "changed"}


def put(document: dict[str, Any], pointer: str, value: Any) -> None:
    """The value at a place of the document, as far as the place is there."""
    *parents, last = pointer.strip("/").split("/")
    place: Any = document
    for part in parents:
        if isinstance(place, list):
            if int(part) >= len(place):
                return
            place = place[int(part)]
        elif part in place:
            place = place[part]
        else:
            return
    if isinstance(place, list):
        index = len(place) if last == "-" else int(last)
        place[index : index + 1] = [] if value is GONE else [copy.deepcopy(value)]
    elif value is GONE:
        place.pop(last, None)
    else:
        place[last] = copy.deepcopy(value)


def valid(document: dict[str, Any]) -> ContractDocument | None:
    from console.errors import Invalid

    try:
        return from_json(document)
    except Invalid:
        return None


def meaning(document: ContractDocument) -> object:
    """What a contract says, whatever the order in which it says it."""
    return (
        sorted(document.interface.inputs, key=lambda one: one.name),
        sorted(document.interface.outputs, key=lambda one: one.name),
        sorted(document.objectives, key=lambda one: one.name),
        sorted(document.errors, key=lambda one: (one.status, one.code)),
        # True is 1 in Python and something else in JSON.
        {name: (type(value), value) for name, value in document.fallback.response.items()},
        (document.fallback.rules, document.fallback.examples),
        (frozenset(document.logging.required), document.logging.retention_days),
        (document.load_qps, document.drift, document.explanation_method, document.valid_until),
        (document.validation, document.rollout),
        (document.timeout_ms, document.request.idempotent),
        {name: frozenset(roles) for name, roles in document.approvals.items() if roles},
    )


@st.composite
def contracts(draw: st.DrawFn) -> ContractDocument:
    """A valid contract, some of its places changed, its lists in any order."""
    document = copy.deepcopy(FULL)
    for pointer in draw(st.lists(st.sampled_from(sorted(OTHERS)), max_size=6)):
        before = copy.deepcopy(document)
        put(document, pointer, draw(st.sampled_from(OTHERS[pointer])))
        if valid(document) is None:
            document = before
    for part in (document["errors"], document["objectives"], document["logging"]["required"]):
        part[:] = draw(st.permutations(part))
    return from_json(document)


@settings(max_examples=60, deadline=None)
@given(contracts(), contracts())
def test_a_difference_is_found_exactly_where_the_meaning_differs_and_turns_round(
    before: ContractDocument, after: ContractDocument
) -> None:
    assert diff(before, before) == ()
    forward, backward = diff(before, after), diff(after, before)
    assert bool(forward) == (meaning(before) != meaning(after))
    assert len(forward) == len(backward)
    turned = {
        (TURNED_KIND[one.kind], str(one.after), str(one.before), one.term.values["what"]): one
        for one in backward
    }
    for change in forward:
        back = turned[
            change.kind, str(change.before), str(change.after), change.term.values["what"]
        ]
        assert back.effect in TURNED[change.effect]
        assert change.words.startswith(change.sentence)


@pytest.mark.parametrize("place", sorted(OTHERS))
def test_no_place_of_a_contract_changes_without_being_told(place: str) -> None:
    before = from_json(FULL)
    for value in OTHERS[place]:
        document = copy.deepcopy(FULL)
        put(document, place, value)
        after = valid(document)
        assert after is None or diff(before, after), f"{place} = {value}"


def test_every_field_of_the_schema_is_among_the_places() -> None:
    def leaves(part: Any, at: str) -> list[str]:
        if "$ref" in part:
            part = schema()["$defs"][part["$ref"].rsplit("/", 1)[1]]
        found: list[str] = []
        for rule in part.get("allOf", ()):
            found += leaves(rule["then"], at)
        for name, item in part.get("properties", {}).items():
            if isinstance(item, dict):
                found += leaves(item, f"{at}/{name}") or [f"{at}/{name}"]
        return found + (leaves(part["items"], f"{at}/*") if "items" in part else [])

    known = {
        "/".join("*" if part.isdecimal() or part == "-" else part for part in place.split("/"))
        for place in OTHERS
    }
    # What names the document, what is made of names of its own, and what is a constant here.
    named = {"/apiVersion", "/kind", "/model", "/revision", "/fallback/response"}
    named |= {"/fallback/rules/*/response", "/fallback/examples/*/response"}
    named |= {"/fallback/examples/*/inputs"}
    named |= {"/logging/required", "/approvals", "/objectives/*/name"}
    named |= {"/interface/inputs/*/sums_to"}  # promised of outputs only
    missing = {
        place
        for place in leaves(schema(), "")
        if place not in known | named
        and not place.startswith(("/validation/derived/", "/interface/outputs/*/n"))
    }
    assert missing == set()


def test_a_change_says_what_it_is_to_a_caller() -> None:
    before = from_json(body())
    weaker = diff(before, from_json(changed(("/objectives/0/threshold_ms", 120))))
    assert [change.words for change in weaker] == ["P99 limit: 80 → 120 ms: weaker for the caller"]
    assert breaking_changes(weaker) == ()
    gone = diff(before, from_json(changed(("/errors/0", GONE))))
    assert breaking_changes(gone) == gone
    assert gone[0].words == "Error answer “422 invalid_input” is dropped: caller: breaks callers"
