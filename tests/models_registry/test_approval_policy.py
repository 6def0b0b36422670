"""The one rule of what a release takes: approvals, contract, load test, freezes, age, waivers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.errors import Conflict, Invalid, NotAllowed
from models_registry.rules import approval_documents, freezes
from models_registry.rules.approval_policy import (
    APPROVAL,
    CONTRACT,
    CONTRACT_EXPIRED,
    FROZEN,
    LOAD_TEST,
    BoundContract,
    Facts,
    Policy,
    Waiver,
    check_may_approve,
    evaluate,
    may_approve,
    refuse_unmet,
)
from models_registry.rules.approval_rules import (
    ROLES,
    Approval,
    ApprovalRule,
    Authors,
    assign,
    counts,
    implies,
    not_implied,
    role_rule,
    with_promised,
)
from models_registry.rules.freezes import Window
from models_registry.rules.load_tests import Gate

NOW = datetime(2026, 12, 4, 12, 0, tzinfo=UTC)  # a Friday
AUTHORS = Authors("dana", "dana")


def approval(person: str, *roles: str, days: float = 0, **more: object) -> Approval:
    at = NOW - timedelta(days=days)
    return Approval(person, at, frozenset(roles), **more)  # type: ignore[arg-type]


def facts(*approvals: Approval, **more: object) -> Facts:
    return Facts(AUTHORS, approvals, **more)  # type: ignore[arg-type]


TWO_SRE = ApprovalRule(2, ("sre",), (), ("uploader",))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (ApprovalRule(1, ("sre",), (), ("uploader",)), "1 SRE who did not upload it"),
        (TWO_SRE, "2 SREs who did not upload it"),
        (role_rule("sre"), "1 SRE who neither asked for it nor uploaded it"),
        (ApprovalRule(1, ("sre", "platform_admin")), "1 SRE or platform admin"),
        (ApprovalRule(1, (), ("business_owner",)), "the model's business owner"),
        (
            ApprovalRule(2, (), ("sre", "business_owner")),
            "2 of the model's SRE and the model's business owner",
        ),
        (ApprovalRule(1, ("sre",), ("business_owner",)), "1 SRE or the model's business owner"),
    ],
)
def test_a_rule_explains_itself(rule: ApprovalRule, words: str) -> None:
    assert rule.words() == words


def test_what_is_missing_is_said_and_who_approved() -> None:
    policy = Policy("production", (TWO_SRE,))
    verdict = evaluate(policy, facts(approval("sam", "sre")), NOW)
    assert [one.sentence for one in verdict.unmet] == [
        "It needs 1 more SRE who did not upload it; sam approved."
    ]
    assert verdict.unmet[0].hint == "Ask 1 SRE who did not upload it to approve."
    done = evaluate(policy, facts(approval("sam", "sre"), approval("eve", "sre")), NOW)
    assert done.may_deploy
    assert done.conditions[0].sentence == "Approved by sam, eve: 2 SREs who did not upload it."
    assert "All approvals are there" in done.explanation


def test_an_author_and_a_service_account_never_count() -> None:
    policy = Policy("production", (TWO_SRE,))
    robot = approval("robot", "sre", is_person=False)
    verdict = evaluate(policy, facts(approval("dana", "sre"), robot), NOW)
    assert verdict.unmet[0].missing == 2
    for candidate, code in (
        (approval("dana", "sre"), "author_may_not_approve"),
        (robot, "person_needed"),
        (approval("bea", "business_owner"), "role_missing"),
    ):
        with pytest.raises(NotAllowed) as refused:
            check_may_approve(policy, facts(), candidate, NOW)
        assert refused.value.code == code
        assert refused.value.hint
    asked_only = Policy("production", (ApprovalRule(1, ("sre",), (), ("requester",)),))
    others = Facts(Authors("ada", "dana"))
    assert check_may_approve(asked_only, others, approval("dana", "sre"), NOW) == "sre"


def test_who_holds_several_roles_is_moved_to_the_place_that_nobody_else_can_fill() -> None:
    rules = (ApprovalRule(1, ("sre", "business_owner")), ApprovalRule(1, ("sre",)))
    both, owner = approval("sam", "sre", "business_owner"), approval("bea", "business_owner")
    used = assign(rules, [both, owner], AUTHORS)
    assert [[one.person for one in group] for group in used] == [["bea"], ["sam"]]
    policy = Policy("production", rules)
    assert may_approve(policy, facts(both), owner, NOW)
    assert not may_approve(policy, facts(both, owner), approval("eve", "sre"), NOW)


RULES = st.builds(
    ApprovalRule,
    st.integers(1, 2),
    st.lists(st.sampled_from(ROLES[:3]), min_size=1, max_size=2, unique=True).map(tuple),
    st.just(()),
    st.lists(st.sampled_from(["requester", "uploader"]), unique=True).map(tuple),
)
PEOPLE = st.lists(
    st.lists(st.sampled_from(ROLES[:3]), min_size=1, max_size=3, unique=True),
    min_size=0,
    max_size=4,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(RULES, min_size=1, max_size=3), PEOPLE, st.integers(0, 4), st.integers(0, 4))
def test_a_person_never_blocks_an_assignment_that_exists(
    rules: list[ApprovalRule], held: list[list[str]], requester: int, uploader: int
) -> None:
    people = [approval(f"p{index}", *roles) for index, roles in enumerate(held)]
    authors = Authors(f"p{requester}", f"p{uploader}")
    used = assign(rules, people, authors)
    names = [one.person for group in used for one in group]
    assert len(names) == len(set(names))
    for rule, group in zip(rules, used, strict=True):
        assert len(group) <= rule.count
        assert all(counts(rule, one, authors) for one in group)
    assert len(names) == _most_by_trying_all(rules, people, authors)


def _most_by_trying_all(rules: list[ApprovalRule], people: list[Approval], authors: Authors) -> int:
    best = 0
    for choice in product(range(len(rules) + 1), repeat=len(people)):
        fits = all(
            index == len(rules) or counts(rules[index], person, authors)
            for index, person in zip(choice, people, strict=True)
        )
        within = all(choice.count(index) <= rule.count for index, rule in enumerate(rules))
        if fits and within:
            best = max(best, sum(index < len(rules) for index in choice))
    return best


def test_the_contract_adds_to_the_environment_and_asks_for_nothing_twice() -> None:
    sre = role_rule("sre")
    assert with_promised((sre,), ("sre", "business_owner")) == (sre, role_rule("business_owner"))
    assert with_promised((TWO_SRE,), ("sre",)) == (TWO_SRE,)
    assert with_promised((), ("sre",)) == (sre,)
    either = ApprovalRule(1, ("sre", "platform_admin"), (), ())
    assert with_promised((either,), ("sre",)) == (either, role_rule("sre", excluded=()))


def test_what_was_asked_at_first_stays_asked_when_the_policy_is_weakened() -> None:
    policy = Policy("production", (role_rule("sre"),), asked=(TWO_SRE,))
    verdict = evaluate(policy, facts(approval("sam", "sre")), NOW)
    assert [(one.met, one.earlier) for one in verdict.conditions] == [(True, False), (False, True)]
    assert evaluate(replace(policy, asked=()), facts(approval("sam", "sre")), NOW).may_deploy
    assert implies(TWO_SRE, ApprovalRule(1, ("sre",)))
    assert not_implied((TWO_SRE,), (ApprovalRule(1, ("sre",)),)) == (TWO_SRE,)


def test_an_approval_counts_for_so_many_days() -> None:
    policy = Policy("production", (role_rule("sre"),), valid_days=7)
    fresh = facts(approval("sam", "sre", days=4))
    assert evaluate(policy, fresh, NOW).lapses_at == NOW + timedelta(days=3)
    at_the_end = evaluate(policy, fresh, NOW + timedelta(days=3))
    assert at_the_end.unmet[0].code == APPROVAL
    assert "sam is older than 7 days" in at_the_end.unmet[0].sentence
    again = fresh.approvals[0]
    assert may_approve(policy, fresh, replace(again, at=NOW), NOW + timedelta(days=3))
    spare = facts(approval("sam", "sre", days=6), approval("eve", "sre", days=1))
    assert evaluate(policy, spare, NOW).lapses_at == NOW + timedelta(days=6)
    doubted = facts(approval("sam", "sre", doubted=True))
    assert "key that was compromised" in evaluate(policy, doubted, NOW).unmet[0].sentence


@pytest.mark.parametrize(
    ("bound", "code"),
    [
        (BoundContract(None), CONTRACT),
        (BoundContract(3, "in_force", any_in_force=True), None),
        (BoundContract(3, "superseded", any_in_force=True), None),
        (BoundContract(3, "superseded"), CONTRACT),
        (BoundContract(3, "expired"), CONTRACT_EXPIRED),
        (BoundContract(3, "withdrawn", any_in_force=True), CONTRACT),
    ],
)
def test_the_contract_that_a_release_names_has_to_hold(
    bound: BoundContract, code: str | None
) -> None:
    verdict = evaluate(Policy("production", requires_contract=True), facts(contract=bound), NOW)
    assert [one.code for one in verdict.unmet] == ([code] if code else [])


FREEZE = Window("Quarter end", NOW - timedelta(hours=1), NOW + timedelta(days=2, hours=18), False,
                "quarter end")  # fmt: skip


def test_a_freeze_stops_deployments_and_says_until_when() -> None:
    verdict = evaluate(Policy("production", windows=(FREEZE,)), facts(), NOW)
    frozen = verdict.unmet[0]
    assert (frozen.code, frozen.only_deploys) == (FROZEN, True)
    assert frozen.sentence == "production is frozen until Monday 06:00 UTC: quarter end."
    assert verdict.approved
    with pytest.raises(Conflict) as refused:
        refuse_unmet(verdict, "fraud_detector v1 to production")
    assert refused.value.code == FROZEN
    assert refused.value.errors[0].pointer == "/conditions/0"
    assert evaluate(Policy("production", windows=(FREEZE,)), facts(), FREEZE.ends_at).may_deploy


def test_weekly_windows_come_again_and_touching_ones_are_one_freeze() -> None:
    weekend = Window("Weekend", NOW - timedelta(days=14), NOW - timedelta(days=12), weekly=True)
    assert freezes.occurrence(weekend, NOW) == (NOW, NOW + timedelta(days=2))
    assert freezes.occurrence(weekend, NOW + timedelta(days=3)) == (
        NOW + timedelta(days=7),
        NOW + timedelta(days=9),
    )
    after = Window("Move", NOW + timedelta(days=2), NOW + timedelta(days=3))
    found = freezes.frozen_at((weekend, after), NOW)
    assert found is not None
    assert found.until == NOW + timedelta(days=3)
    assert freezes.frozen_at((after,), NOW) is None
    assert freezes.next_freeze((after,), NOW) is not None
    assert freezes.next_freeze((after,), NOW, within=timedelta(days=1)) is None
    halves = [
        Window(name, NOW + timedelta(days=shift), NOW + timedelta(days=shift + 4), weekly=True)
        for name, shift in (("first", 0), ("second", 3.5))
    ]
    endless = freezes.frozen_at(halves, NOW)
    assert endless is not None
    assert endless.until is None


def test_breaking_the_glass_goes_past_what_was_named_then_and_no_further() -> None:
    policy = Policy(
        "production",
        (role_rule("sre"),),
        valid_days=7,
        requires_load_test=True,
        windows=(FREEZE,),
    )
    gate = Gate(required=True, run=None, sentence="It needs a load test.")
    waiver = Waiver("ada", NOW, frozenset({APPROVAL, FROZEN}), frozen_until=FREEZE.ends_at)
    verdict = evaluate(policy, facts(load_test=gate, waiver=waiver), NOW)
    assert [one.code for one in verdict.unmet] == [LOAD_TEST]
    assert [one.code for one in verdict.conditions if one.waived] == [APPROVAL, FROZEN]
    all_of_it = replace(waiver, codes=waiver.codes | {LOAD_TEST})
    assert evaluate(policy, facts(load_test=gate, waiver=all_of_it), NOW).may_deploy
    longer = replace(policy, windows=(replace(FREEZE, ends_at=FREEZE.ends_at + timedelta(1)),))
    other = evaluate(longer, facts(load_test=gate, waiver=all_of_it), NOW)
    assert [one.code for one in other.unmet] == [FROZEN]
    late = evaluate(policy, facts(load_test=gate, waiver=all_of_it), NOW + timedelta(days=7))
    assert APPROVAL in [one.code for one in late.unmet]


@pytest.mark.parametrize(
    ("policy", "pointer"),
    [
        ({"approval_rules": [{"roles": ["sre"]}]}, "/approval_rules/0/count"),
        ({"approval_rules": [{"count": 0, "roles": ["sre"]}]}, "/approval_rules/0/count"),
        ({"approval_rules": [{"count": True, "roles": ["sre"]}]}, "/approval_rules/0/count"),
        ({"approval_rules": [{"count": 1, "roles": ["viewer"]}]}, "/approval_rules/0/roles/0"),
        ({"approval_rules": [{"count": 1}]}, "/approval_rules/0"),
        ({"approval_rules": [{"count": 2, "seats": ["sre"]}]}, "/approval_rules/0/count"),
        ({"approval_rules": [{"count": 1, "roles": ["sre"], "who": 1}]}, "/approval_rules/0/who"),
        ({"approval_rules": [{"count": 1, "roles": ["sre"], "not": ["me"]}]},
         "/approval_rules/0/not/0"),
        ({"approval_rules": [{"count": 1, "roles": ["sre", "sre"]}]}, "/approval_rules/0/roles"),
        ({"approval_rules": [{"count": 1, "roles": "sre"}]}, "/approval_rules/0/roles"),
        ({"approval_rules": "sre"}, "/approval_rules"),
        ({"approval_rules": [{"count": 1, "roles": ["sre"]}] * 11}, "/approval_rules"),
        ({"approval_valid_days": 0}, "/approval_valid_days"),
        ({"break_glass_roles": ["viewer"]}, "/break_glass_roles/0"),
        ({"quorum": 2}, "/quorum"),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_is_refused_with_its_place(policy, pointer: str) -> None:
    with pytest.raises(Invalid) as refused:
        approval_documents.check(policy)
    assert refused.value.code == "bad_policy"
    assert pointer in [fault.pointer for fault in refused.value.errors]
    assert refused.value.hint


def test_a_weaker_policy_is_called_so() -> None:
    strict = {
        "approval_rules": approval_documents.write_rules((TWO_SRE, role_rule("business_owner"))),
        "approval_valid_days": 7,
        "break_glass_roles": [],
        "requires_contract": True,
        "requires_load_test": True,
    }
    lax = {
        "approval_rules": approval_documents.write_rules((ApprovalRule(1, ("sre",)),)),
        "approval_valid_days": 30,
        "break_glass_roles": ["sre"],
        "requires_contract": False,
        "requires_load_test": False,
    }
    found = approval_documents.weaker(strict, lax)
    assert len(found) == 6
    assert "It does not ask for 2 SREs who did not upload it any more, only 1 SRE." in found
    assert "An approval counts for 30 days, not 7." in found
    assert "SREs may release against the policy." in found
    assert approval_documents.weaker(lax, strict) == []
    assert approval_documents.weaker(strict, strict) == []
