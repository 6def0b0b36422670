"""The policy in words, the moves of a release, and whether a graph keeps a promise."""

from __future__ import annotations

import pytest

from console.errors import Conflict, NotAllowed
from models_registry.exporting.protocol import TensorSpec
from models_registry.rules import contract_document, releases
from models_registry.rules.releases import Policy
from tests.factories import INPUTS, OUTPUTS, contract_body

STATES = ("proposed", "approved", "refused", "withdrawn")
LEGAL = {("proposed", "approved"), ("proposed", "refused"), ("proposed", "withdrawn")}
PRODUCTION = Policy("production", True, ("sre", "business_owner"))


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_the_moves_of_a_release(before: str, after: str) -> None:
    assert releases.may_move(before, after) == ((before, after) in LEGAL)
    if (before, after) in LEGAL:
        releases.check_move(before, after, "It")
    else:
        with pytest.raises(Conflict):
            releases.check_move(before, after, "It")


@pytest.mark.parametrize(
    ("policy", "given", "sentence"),
    [
        (
            Policy("staging", False, ()),
            (),
            "staging asks for no approval, and no contract is required: approved by policy.",
        ),
        (
            PRODUCTION,
            ("sre",),
            "production asks for the approval of an SRE and a business owner, other than the "
            "person who asked, and a contract in force is required. Missing: a business owner.",
        ),
        (
            Policy("production", True, ("sre",), author_may_approve=True),
            ("sre",),
            "production asks for the approval of an SRE, and a contract in force is required. "
            "All approvals are there.",
        ),
    ],
)
def test_the_policy_explains_itself(policy: Policy, given: tuple[str, ...], sentence: str) -> None:
    assert releases.standing(policy, given).explanation == sentence


def test_the_contract_adds_to_the_environments_policy() -> None:
    contract = contract_document.from_json(
        contract_body(approvals={"production": ["business_owner", "sre"]})
    )
    policy = releases.policy_for(
        environment="production",
        requires_contract=True,
        approver_roles=["sre"],
        author_may_approve=False,
        contract=contract,
    )
    assert policy.roles == ("sre", "business_owner")


@pytest.mark.parametrize(
    ("held", "approved", "author", "outcome"),
    [
        ({"sre"}, (), False, "sre"),
        ({"business_owner", "sre"}, ("sre",), False, "business_owner"),
        ({"sre"}, ("sre",), False, "role_missing"),
        ({"viewer"}, (), False, "role_missing"),
        ({"sre"}, (), True, "author_may_not_approve"),
    ],
)
def test_the_role_in_which_a_person_approves(held, approved, author: bool, outcome: str) -> None:
    def ask() -> str:
        return releases.role_for_approval(
            PRODUCTION, approved_roles=approved, held_roles=held, is_author=author
        )

    if outcome in PRODUCTION.roles:
        assert ask() == outcome
    else:
        with pytest.raises(NotAllowed) as refused:
            ask()
        assert refused.value.code == outcome
        assert refused.value.hint


@pytest.mark.parametrize(
    ("inputs", "outputs", "words"),
    [
        (INPUTS, OUTPUTS, []),
        # A free axis serves a fixed promise; not the other way round.
        ((TensorSpec("features", "FP32", (-1, -1), ("batch", "width")),), OUTPUTS, []),
        ((TensorSpec("features", "FP32", (4, 10), ("", "")),), OUTPUTS, ["[4, 10]"]),
        ((TensorSpec("features", "FP64", (-1, 10), ("batch", "")),), OUTPUTS, ["FP64"]),
        ((TensorSpec("x", "FP32", (-1, 10), ("batch", "")),), OUTPUTS, ["features", "input x"]),
        ((TensorSpec("features", "FP32", (10,), ("",)),), OUTPUTS, ["[10]"]),
        (INPUTS, (*OUTPUTS, TensorSpec("debug", "FP32", (-1,), ("batch",))), []),
        ((*INPUTS, TensorSpec("mask", "FP32", (-1,), ("batch",))), OUTPUTS, ["mask"]),
        (INPUTS, (), ["risk_score"]),
    ],
)
def test_whether_a_graph_keeps_a_contract(inputs, outputs, words: list[str]) -> None:
    contract = contract_document.from_json(contract_body())
    faults = releases.misfits(contract, inputs, outputs, batched=False)
    assert len(faults) == len(words)
    for fault, word in zip(faults, words, strict=True):
        assert word in fault


@pytest.mark.parametrize("dims", [["batch"], ["batch", 1]])
def test_what_is_batch_alone_keeps_its_promise_as_triton_serves_it(dims: list[str | int]) -> None:
    body = contract_body()
    body["interface"]["outputs"] = [{"name": "risk_score", "dtype": "FP32", "dims": dims}]
    contract = contract_document.from_json(body)
    outputs = (TensorSpec("risk_score", "FP32", (-1,), ("batch",)),)
    assert releases.misfits(contract, INPUTS, outputs, batched=True) == ()
    assert bool(releases.misfits(contract, INPUTS, outputs, batched=False)) is (len(dims) == 2)
