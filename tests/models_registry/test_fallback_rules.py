"""Rules of a fallback: what may be proposed, who answers a row, and what cannot do harm."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.errors import Invalid
from models_registry.rules import contract_document, fallback_rules
from models_registry.rules.contract_document import ContractDocument, Tensor
from models_registry.rules.contract_types import Fallback
from models_registry.rules.expressions import Language, variable_names
from models_registry.rules.fallback_rules import FIXED, compile_rules, row_of
from tests.models_registry.contract_samples import changed

HIGH = {"name": "high", "when": "features[0] > 2.0", "response": {"risk_score": 0.9, "reason": "x"}}
LOW = {
    "name": "low",
    "when": "features.all(v, v < 0.0)",
    "response": {"risk_score": 0.1, "reason": "y"},
}
EXAMPLES = [
    {"inputs": {"features": [3.0] + [0] * 9}, "response": HIGH["response"]},
    {"inputs": {"features": [-1] * 10}, "response": LOW["response"]},
    {"inputs": {}, "response": {"risk_score": 0.3, "reason": "model_down"}},
]


def document(rules: Any, examples: Any = (), **more: Any) -> ContractDocument:
    places = {"/fallback/rules": rules, "/fallback/examples": list(examples), **more}
    return contract_document.from_json(changed(*places.items()))


def rule(when: str, **more: Any) -> dict[str, Any]:
    return {**HIGH, "when": when, **more}


def test_rules_with_their_examples_may_be_proposed() -> None:
    fallback_rules.check_rules(document([HIGH, LOW], EXAMPLES))


def test_a_document_without_rules_loads_no_engine() -> None:
    fallback_rules.check_rules(contract_document.from_json(changed()))


@pytest.mark.parametrize(
    ("when", "detail"),
    [
        ("features[0] >", "at character 14"),
        ("nothing > 1.0", "undeclared reference to 'nothing'"),
        ("features[0]", "gives a double"),
        ("features[0] > 1", "written with a point"),
        ("__import__('os').system('id') == 0", "undeclared reference"),
        ("'a'.matches('(a+)+')", "undeclared reference to 'matches'"),
        ("(" * 200 + "features[0] > 1.0" + ")" * 200, "recursion limit"),
        (" + ".join(["features[0]"] * 70) + " > 1.0", "recursion"),
        ("features.exists(v, features + features == features)", "takes"),
        ("features.exists(v, features.map(a, a + v) == features)", "takes"),
    ],
)
def test_conditions_that_cannot_be_used_are_refused_with_their_place(
    when: str, detail: str
) -> None:
    varying: Any = [{"name": "features", "dtype": "FP32", "dims": ["batch", "n"]}]
    made = document([rule(when)], **{"/interface/inputs": varying})
    begun = time.monotonic()
    with pytest.raises(Invalid) as refused:
        fallback_rules.check_rules(made)
    assert time.monotonic() - begun < 3
    assert refused.value.code == "invalid_rule"
    assert refused.value.errors[0].pointer == "/fallback/rules/0/when"
    assert detail in refused.value.errors[0].detail


@pytest.mark.parametrize(
    ("rules", "pointer", "detail"),
    [
        ([rule("true"), rule("true")], "/fallback/rules/1/name", "named twice"),
        ([rule("a" * 1001)], "/fallback/rules/0/when", "longer than 1000"),
        ([rule("")], "/fallback/rules/0/when", "is empty"),
        ([rule("true", then=1)], "/fallback/rules/0/then", "not a known field"),
        ([rule("true", name="High")], "/fallback/rules/0/name", "lower_snake_case"),
        (
            [rule("true", response={"risk_score": 2})],
            "/fallback/rules/0/response/risk_score",
            "above",
        ),
        ([rule("true", response={"word": "x"})], "/fallback/rules/0/response/risk_score", "fixed"),
        ([rule("true", name=f"r{n}") for n in range(33)], "/fallback/rules", "at most 32"),
    ],
)
def test_rules_that_do_not_fit_the_contract_are_refused(
    rules: Any, pointer: str, detail: str
) -> None:
    with pytest.raises(Invalid) as refused:
        document(rules)
    (fault,) = [one for one in refused.value.errors if one.pointer == pointer]
    assert detail in fault.detail


def test_responses_of_rules_make_one_tensor_with_the_fixed_one() -> None:
    outputs = [{"name": "risk_score", "dtype": "FP32", "dims": ["batch", "n"]}]
    with pytest.raises(Invalid) as refused:
        document(
            [rule("true", response={"risk_score": [0.1, 0.2]})],
            **{"/interface/outputs": outputs, "/fallback/response": {"risk_score": [0.1]}},
        )
    assert refused.value.errors[0].detail == "has 2 values a row, where the fixed response has 1"


def test_rules_are_tested_as_models_are() -> None:
    wrong = {"inputs": {"features": [3.0] + [0] * 9}, "response": {"risk_score": 0.2}}
    odd = {"inputs": {"features": [1.0], "age": 3}, "response": {"risk_score": 0.2}}
    with pytest.raises(Invalid) as refused:
        fallback_rules.check_rules(document([HIGH, LOW], [wrong, odd]))
    assert refused.value.code == "examples_fail"
    found = {fault.pointer: fault.detail for fault in refused.value.errors}
    assert (
        "rule “high” answers reason = x, risk_score = 0.9" in found["/fallback/examples/0/response"]
    )
    assert found["/fallback/examples/1/inputs/features"] == "is not one row of FP32 [10]"
    assert found["/fallback/examples/1/inputs/age"] == "is no input of the contract"
    assert "answers none of the examples" in found["/fallback/rules/1"]


@given(st.lists(st.floats(width=32), min_size=10, max_size=10))
def test_the_first_rule_that_holds_answers_and_nan_is_judged_by_none(values: list[float]) -> None:
    rules = RULES
    decision = rules.decide({"features": values})
    if any(math.isnan(value) for value in values):
        assert decision.rule == FIXED
        assert decision.unjudged == (0, 1)
    elif values[0] > 2:
        assert decision.rule == 0
    elif all(value < 0 for value in values):
        assert decision.rule == 1
    else:
        assert decision == fallback_rules.Decision(FIXED)


@given(
    st.one_of(
        st.none(), st.text(), st.booleans(), st.integers(), st.lists(st.text()), st.floats(),
        st.lists(st.one_of(st.none(), st.integers(), st.floats())),
        st.dictionaries(st.text(), st.integers()),
    )
)  # fmt: skip
def test_whatever_comes_is_answered(value: Any) -> None:
    decision = RULES.decide({"features": value})
    assert -1 <= decision.rule < 2
    decision = RULES.decide(row_of({"features": value}, RULES.inputs))
    assert -1 <= decision.rule < 2


@given(st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=8))
def test_every_variable_is_one_input_and_can_be_written(names: list[str]) -> None:
    variables = variable_names(names)
    assert len(set(variables.values())) == len(variables)
    tensors = [Tensor(name, "FP32", ("batch", 1)) for name in names]
    language = Language(tensors)
    for name, variable in variables.items():
        assert language.compile(f"{variable} > 1.0").holds({name: 2.0}) is True


def test_values_that_the_engine_cannot_take_are_not_judged() -> None:
    language = Language([Tensor("word", "BYTES", ("batch",)), Tensor("n", "UINT64", ("batch",))])
    word, number = language.compile("word != 'a'"), language.compile("n >= 0")
    # Half a character, as JSON can write it; and a number beyond the engine's.
    assert word.holds({"word": "\ud800"}) is None
    assert number.holds({"n": 2**64 - 1}) is None
    assert row_of({"features": [10**400] * 10}, RULES.inputs) == {}


def test_types_of_inputs_are_those_of_the_contract() -> None:
    tensors = [
        Tensor("age", "INT32", ("batch", 1)),
        Tensor("country", "BYTES", ("batch",)),
        Tensor("new", "BOOL", ("batch", 1)),
        Tensor("dense/x:0", "FP16", ("batch", 2)),
    ]
    condition = Language(tensors).compile(
        "age >= 18 && country in ['NL', 'DE'] && !new && dense_x_0[1] > 0.5"
    )
    row = {"age": 20, "country": "NL", "new": False, "dense/x:0": [0.0, 1.0]}
    assert condition.holds(row) is True
    assert condition.holds({**row, "country": "FR"}) is False
    assert condition.holds({**row, "age": "20"}) is None
    assert condition.holds({**row, "dense/x:0": [0.0]}) is None
    assert condition.holds({**row, "country": "N" * 5000}) is None


RULES = compile_rules(document([HIGH, LOW]))
assert Fallback({}).rules == ()
