"""What a release still needs before it goes live, by its environment's policy: the one rule.

Plain data and the time in; every condition, met or missing, with a sentence out. The service asks
it at approval and at deploy, the node before it places files, pages, API and CLI to show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from console.errors import Conflict, FieldError, NotAllowed
from models_registry.rules.approval_rules import (
    REQUESTER,
    Approval,
    ApprovalRule,
    Authors,
    assign,
    counted_as,
    not_implied,
)
from models_registry.rules.freezes import Frozen, Window, end_words, frozen_at
from models_registry.rules.load_tests import Gate

APPROVAL = "approval_missing"
CONTRACT = "contract_missing"
CONTRACT_EXPIRED = "contract_expired"
LOAD_TEST = "load_test_missing"
FROZEN = "environment_frozen"
WAIVABLE = (APPROVAL, CONTRACT, CONTRACT_EXPIRED, LOAD_TEST, FROZEN)
"""All that breaking the glass may go past: what the policy asks for, never what must be true."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What an environment asks of a release now (`rules`), and asked when it was asked for.

    `rules` hold what the contract promises as well. An approval counts for `valid_days` days.
    """

    environment: str
    rules: tuple[ApprovalRule, ...] = ()
    asked: tuple[ApprovalRule, ...] = ()
    valid_days: int | None = None
    requires_contract: bool = False
    requires_load_test: bool = False
    windows: tuple[Window, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundContract:
    """The contract that a release names: its revision and state, and whether one is in force.

    `revision` is None when it names none.
    """

    revision: int | None
    state: str = ""
    any_in_force: bool = False

    @property
    def holds(self) -> bool:
        """In force, or superseded by another that is: an earlier version may come back."""
        return self.state == "in_force" or (self.state == "superseded" and self.any_in_force)


NO_CONTRACT = BoundContract(None)
NO_GATE = Gate(required=False, run=None, sentence="")


@dataclass(frozen=True, slots=True)
class Waiver:
    """What breaking the glass has waived: codes, by whom, when; a freeze up to its end only."""

    person: str
    at: datetime
    codes: frozenset[str]
    frozen_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """How a release stands."""

    authors: Authors
    approvals: tuple[Approval, ...] = ()
    contract: BoundContract = NO_CONTRACT
    load_test: Gate = NO_GATE
    waiver: Waiver | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that the policy asks for.

    `sentence` says how it stands, `hint` what to do while it is missing. Of an approval rule:
    the approvals that are used for it, those that lapsed, and how many are missing; `earlier`
    when it was asked at first and is not any more. `until`: when a freeze ends. `waived`: missing,
    and gone past by breaking the glass.
    """

    code: str
    met: bool
    sentence: str
    hint: str = ""
    rule: ApprovalRule | None = None
    approvals: tuple[Approval, ...] = ()
    lapsed: tuple[Approval, ...] = ()
    missing: int = 0
    earlier: bool = False
    frozen: Frozen | None = None
    waived: bool = False

    @property
    def holds(self) -> bool:
        """Whether it is no obstacle."""
        return self.met or self.waived

    @property
    def only_deploys(self) -> bool:
        """Whether it stops a deployment, not an approval."""
        return self.code == FROZEN


@dataclass(frozen=True, slots=True)
class Verdict:
    """Every condition of the policy. `lapses_at`: when the approvals will not do any more."""

    environment: str
    conditions: tuple[Condition, ...]
    lapses_at: datetime | None = None

    @property
    def unmet(self) -> tuple[Condition, ...]:
        return tuple(one for one in self.conditions if not one.holds)

    @property
    def may_deploy(self) -> bool:
        return not self.unmet

    @property
    def approvals(self) -> tuple[Condition, ...]:
        """The conditions that are approval rules."""
        return tuple(one for one in self.conditions if one.rule is not None)

    @property
    def approved(self) -> bool:
        """Whether no approval is missing."""
        return all(one.holds for one in self.approvals)

    @property
    def explanation(self) -> str:
        """The policy in a sentence, and what is missing."""
        return _explanation(self)


def evaluate(policy: Policy, facts: Facts, now: datetime) -> Verdict:
    """Every condition of the policy for this release at this time."""
    conditions = [
        *_approvals(policy, facts, now),
        *_contract(policy, facts),
        *_load_test(policy, facts),
        *_freeze(policy, now),
    ]
    waiver = facts.waiver
    if waiver is not None and not lapsed(policy, waiver.at, now):
        conditions = [
            replace(one, waived=not one.met and _is_waived(one, waiver)) for one in conditions
        ]
    return Verdict(policy.environment, tuple(conditions), _lapses_at(policy, facts, now))


def lapsed(policy: Policy, at: datetime, now: datetime) -> bool:
    """Whether what was given at that time does not count for a new deployment any more."""
    return policy.valid_days is not None and at + timedelta(days=policy.valid_days) <= now


def still_counts(policy: Policy, approval: Approval, now: datetime) -> bool:
    """Whether an approval that was given counts for a new deployment."""
    return not approval.doubted and not lapsed(policy, approval.at, now)


def check_may_approve(policy: Policy, facts: Facts, candidate: Approval, now: datetime) -> str:
    """The role in which the candidate's word counts now, when one more approval is missing.

    Raises NotAllowed `person_needed`, `author_may_not_approve` or `role_missing`.
    """
    if not candidate.is_person:
        raise NotAllowed(
            "Approvals are given by people: a service account's never counts.",
            code="person_needed",
            hint="Have somebody sign with a key of their own.",
        )
    role = _role_that_helps(policy, facts, candidate, now)
    if role:
        return role
    missing = [one for one in evaluate(policy, facts, now).approvals if not one.met]
    words = ", and ".join(one.rule.words(one.missing) for one in missing if one.rule)
    excluded = {name for one in missing if one.rule for name in one.rule.excluded}
    parts = excluded & set(facts.authors.parts_of(candidate.person))
    if parts:
        asked = REQUESTER in parts
        raise NotAllowed(
            f"You {'asked for this release' if asked else 'uploaded this version'}, and "
            f"{policy.environment} does not let the person who "
            f"{'asks' if asked else 'uploaded it'} also approve.",
            code="author_may_not_approve",
            hint=f"Ask somebody else: it needs {words}.",
        )
    raise NotAllowed(
        f"{policy.environment} waits for the approval of {words or 'nobody'}, and that is not a "
        "role of yours.",
        code="role_missing",
        hint=f"Ask {words} to approve." if words else "",
    )


def may_approve(policy: Policy, facts: Facts, candidate: Approval, now: datetime) -> bool:
    """Whether the candidate's approval would fill a place that is empty now; not twice."""
    given = (one.person for one in facts.approvals if still_counts(policy, one, now))
    if candidate.person in given:
        return False
    return candidate.is_person and bool(_role_that_helps(policy, facts, candidate, now))


def refuse_unmet(verdict: Verdict, subject: str) -> None:
    """Raise Conflict with the code of the first condition that is missing; all are listed."""
    unmet = verdict.unmet
    if not unmet:
        return
    first = unmet[0]
    raise Conflict(
        f"The release of {subject} may not be deployed: {first.sentence}",
        code=first.code,
        hint=first.hint,
        errors=tuple(
            FieldError(f"/conditions/{index}", one.sentence)
            for index, one in enumerate(verdict.conditions)
            if not one.holds
        ),
    )


def _approvals(policy: Policy, facts: Facts, now: datetime) -> list[Condition]:
    earlier = not_implied(policy.asked, policy.rules)
    found = _of_rules(policy, policy.rules, facts, now)
    if earlier:
        # All that was asked is weighed together; only what is not asked anyhow is shown again.
        asked = _of_rules(policy, policy.asked, facts, now)
        found += [replace(one, earlier=True) for one in asked if one.rule in earlier]
    return found


def _of_rules(
    policy: Policy, rules: Sequence[ApprovalRule], facts: Facts, now: datetime
) -> list[Condition]:
    valid = [one for one in facts.approvals if still_counts(policy, one, now)]
    old = [one for one in facts.approvals if not still_counts(policy, one, now)]
    used = assign(rules, valid, facts.authors)
    gone = assign(rules, old, facts.authors)
    return [
        _of_rule(policy, rule, given, past)
        for rule, given, past in zip(rules, used, gone, strict=True)
    ]


def _of_rule(
    policy: Policy, rule: ApprovalRule, given: tuple[Approval, ...], past: tuple[Approval, ...]
) -> Condition:
    missing = rule.count - len(given)
    names = ", ".join(one.person for one in given)
    if missing <= 0:
        sentence, hint = f"Approved by {names}: {rule.words()}.", ""
    else:
        more = " more" if given and rule.roles else ""
        words = rule.words(missing)
        number, _, who = words.partition(" ")
        words = f"{number}{more} {who}" if rule.roles else words
        sentence = f"It needs {words}" + (f"; {names} approved." if names else ".")
        hint = f"Ask {rule.words(missing)} to approve."
        if past:
            people = ", ".join(one.person for one in past)
            why = (
                "was signed with a key that was compromised"
                if past[0].doubted
                else f"is older than {_days(policy.valid_days or 0)}"
            )
            sentence += f" The approval of {people} {why} and does not count any more."
            hint = f"Ask {people}, or somebody else who may, to approve again."
    return Condition(APPROVAL, missing <= 0, sentence, hint, rule, given, past, max(0, missing))


def _contract(policy: Policy, facts: Facts) -> list[Condition]:
    bound = facts.contract
    if bound.revision is None:
        if not policy.requires_contract:
            return []
        return [
            Condition(
                CONTRACT,
                met=False,
                sentence=f"It needs a contract in force: {policy.environment} asks for one, and "
                "the release names none.",
                hint="Have a contract signed, then ask for a new release.",
            )
        ]
    # What is signed names this contract, also where the environment does not ask for one.
    if bound.holds:
        sentence = f"Contract {bound.revision} is {bound.state.replace('_', ' ')}."
        return [Condition(CONTRACT, met=True, sentence=sentence)]
    ended = ", and none is in force any more" if bound.state == "superseded" else ""
    return [
        Condition(
            CONTRACT_EXPIRED if bound.state == "expired" else CONTRACT,
            met=False,
            sentence=f"It needs a contract in force: contract {bound.revision} is "
            f"{bound.state}{ended}.",
            hint="Have a contract signed, then ask for a new release.",
        )
    ]


def _load_test(policy: Policy, facts: Facts) -> list[Condition]:
    if not policy.requires_load_test:
        return []
    gate = facts.load_test
    return [Condition(LOAD_TEST, met=gate.open, sentence=gate.sentence, hint=gate.hint)]


def _freeze(policy: Policy, now: datetime) -> list[Condition]:
    frozen = frozen_at(policy.windows, now)
    if frozen is None:
        return []
    return [
        Condition(
            FROZEN,
            met=False,
            sentence=f"{policy.environment} is frozen until {end_words(frozen, now)}: "
            f"{frozen.window.why}.",
            hint="It may be approved meanwhile. Deploy it afterwards, or have the freeze lifted; "
            "rolling back is never frozen.",
            frozen=frozen,
        )
    ]


def _is_waived(condition: Condition, waiver: Waiver) -> bool:
    if condition.code not in waiver.codes:
        return False
    if condition.frozen is None:
        return True
    # The freeze that was gone past, not every later one.
    until, ends = waiver.frozen_until, condition.frozen.until
    return until is not None and ends is not None and ends <= until


def _role_that_helps(policy: Policy, facts: Facts, candidate: Approval, now: datetime) -> str:
    """The role of the place that one more approval fills, in either set of rules; "" for none."""
    valid = [
        one
        for one in facts.approvals
        if one.person != candidate.person and still_counts(policy, one, now)
    ]
    for rules in (policy.rules, policy.asked):
        before = assign(rules, valid, facts.authors)
        after = assign(rules, [*valid, candidate], facts.authors)
        if sum(map(len, after)) > sum(map(len, before)):
            return next(
                counted_as(rule, candidate)
                for rule, used in zip(rules, after, strict=True)
                if candidate in used
            )
    return ""


def _lapses_at(policy: Policy, facts: Facts, now: datetime) -> datetime | None:
    """When the first approval lapses that the rules cannot do without."""
    if policy.valid_days is None or not all(c.met for c in _approvals(policy, facts, now)):
        return None
    ends = sorted(one.at + timedelta(days=policy.valid_days) for one in facts.approvals)
    for end in ends:
        if end > now and not all(c.met for c in _approvals(policy, facts, end)):
            return end
    return None


def _explanation(verdict: Verdict) -> str:
    rules = [one for one in verdict.conditions if one.rule is not None]
    contract = any(one.code in (CONTRACT, CONTRACT_EXPIRED) for one in verdict.conditions)
    bound = "a contract in force is required" if contract else "no contract is required"
    if not rules:
        return f"{verdict.environment} asks for no approval, and {bound}: approved by policy."
    asked = ", and ".join(one.rule.words() for one in rules if one.rule)
    words = f"{verdict.environment} asks for the approval of {asked}, and {bound}."
    waiting = [one.rule.who(one.missing) for one in rules if one.rule and not one.met]
    if not waiting:
        return f"{words} All approvals are there."
    return f"{words} Missing: {', and '.join(waiting)}."


def _days(days: int) -> str:
    return f"{days} day" if days == 1 else f"{days} days"
