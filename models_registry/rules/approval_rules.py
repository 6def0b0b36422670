"""One approval rule: who may give it, who may not, how many; and the best use of approvals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

REQUESTER = "requester"
UPLOADER = "uploader"
EXCLUDABLE = (REQUESTER, UPLOADER)
ROLES = ("data_scientist", "sre", "business_owner", "platform_admin")
SEATS = ("data_scientist", "sre", "business_owner")

NOUNS: Mapping[str, tuple[str, str]] = {
    "data_scientist": ("data scientist", "data scientists"),
    "sre": ("SRE", "SREs"),
    "business_owner": ("business owner", "business owners"),
    "platform_admin": ("platform admin", "platform admins"),
}
_EXCLUSIONS: Mapping[tuple[str, ...], str] = {
    (): "",
    (REQUESTER,): " who did not ask for it",
    (UPLOADER,): " who did not upload it",
    (REQUESTER, UPLOADER): " who neither asked for it nor uploaded it",
}


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """`count` approvals, each by a holder of one of `roles` or of one of the model's `seats`.

    `excluded` are those whose approval does not count: requester, uploader.
    """

    count: int
    roles: tuple[str, ...] = ()
    seats: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def words(self, count: int | None = None) -> str:
        """As in “2 SREs who did not upload it”; `count` when fewer are still missing."""
        return f"{self.who(count)}{_EXCLUSIONS[_ordered(self.excluded, EXCLUDABLE)]}"

    def who(self, count: int | None = None) -> str:
        """As in “2 SREs or platform admins”, “the model's business owner”."""
        number = self.count if count is None else count
        nouns = [NOUNS[role][number > 1] for role in self.roles]
        alone = [seat for seat in self.seats if seat not in self.roles]
        seats = [f"the model's {NOUNS[seat][0]}" for seat in alone]
        if not nouns:
            return seats[0] if len(seats) == 1 else f"{number} of {_listed(seats, 'and')}"
        return f"{number} {_listed([*nouns, *seats], 'or')}"


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval as it counts: who gave it, the roles and seats they held then, and when.

    `doubted`: its key may have been in other hands, so that it does not count for anything new.
    """

    person: str
    at: datetime
    roles: frozenset[str] = frozenset()
    seats: frozenset[str] = frozenset()
    is_person: bool = True
    doubted: bool = False


@dataclass(frozen=True, slots=True)
class Authors:
    """Who asked for the release, and who uploaded its version: user names."""

    requester: str
    uploader: str

    def parts_of(self, person: str) -> tuple[str, ...]:
        """Which of the two a person is."""
        named = {REQUESTER: self.requester, UPLOADER: self.uploader}
        return tuple(part for part in EXCLUDABLE if named[part] == person)


def holds(rule: ApprovalRule, approval: Approval) -> bool:
    """Whether the person has what the rule asks for; service accounts never have."""
    return approval.is_person and bool(
        approval.roles & set(rule.roles) or approval.seats & set(rule.seats)
    )


def counts(rule: ApprovalRule, approval: Approval, authors: Authors) -> bool:
    """Whether the approval may be used for the rule."""
    return holds(rule, approval) and not set(rule.excluded) & set(authors.parts_of(approval.person))


def counted_as(rule: ApprovalRule, approval: Approval) -> str:
    """The role (or seat) in which a person's approval is used for the rule."""
    held = [role for role in rule.roles if role in approval.roles]
    return (held or [seat for seat in rule.seats if seat in approval.seats])[0]


def assign(
    rules: Sequence[ApprovalRule], approvals: Sequence[Approval], authors: Authors
) -> tuple[tuple[Approval, ...], ...]:
    """The approvals used for each rule, each person once over all of them, as many as can be.

    A maximum matching of people with places (Kuhn's augmenting paths): who holds several roles is
    moved to the place where nobody else could stand. An earlier approval keeps its use.
    """
    places = [index for index, rule in enumerate(rules) for _ in range(rule.count)]
    taken: dict[int, int] = {}

    def settle(who: int, seen: set[int]) -> bool:
        for place, index in enumerate(places):
            if place in seen or not counts(rules[index], approvals[who], authors):
                continue
            seen.add(place)
            if place not in taken or settle(taken[place], seen):
                taken[place] = who
                return True
        return False

    people: set[str] = set()
    for who, approval in enumerate(approvals):
        if approval.person not in people and settle(who, set()):
            people.add(approval.person)
    used: list[list[int]] = [[] for _ in rules]
    for place, who in taken.items():
        used[places[place]].append(who)
    return tuple(tuple(approvals[who] for who in sorted(group)) for group in used)


def implies(strict: ApprovalRule, lax: ApprovalRule) -> bool:
    """Whether whoever satisfies `strict` satisfies `lax` as well."""
    return (
        lax.count <= strict.count
        and set(strict.roles) <= set(lax.roles)
        and set(strict.seats) <= set(lax.seats)
        and set(lax.excluded) <= set(strict.excluded)
    )


def not_implied(
    rules: Iterable[ApprovalRule], by: Iterable[ApprovalRule]
) -> tuple[ApprovalRule, ...]:
    """The rules that no rule of `by` stands for; each of `by` stands for one at most."""
    left, unmet = list(by), []
    # The strictest first: it has the fewest that stand for it.
    for rule in sorted(rules, key=lambda one: -one.count):
        found = next((one for one in left if implies(one, rule)), None)
        if found is None:
            unmet.append(rule)
        else:
            left.remove(found)
    return tuple(unmet)


def with_promised(
    rules: Sequence[ApprovalRule], promised: Collection[str]
) -> tuple[ApprovalRule, ...]:
    """The environment's rules with the roles that a contract promises on top.

    A role that a rule asks for already is not asked for twice. What is added excludes the authors
    unless each of the environment's own rules admits them.
    """
    admits = bool(rules) and not any(rule.excluded for rule in rules)
    added = [role_rule(role, excluded=() if admits else EXCLUDABLE) for role in promised]
    lax = [replace(one, excluded=()) for one in added]
    missing = {rule.roles[0] for rule in not_implied(lax, rules)}
    return (*rules, *(rule for rule in added if rule.roles[0] in missing))


def role_rule(role: str, *, excluded: tuple[str, ...] = EXCLUDABLE) -> ApprovalRule:
    """One approval by a holder of the role, or of the model's seat of that name."""
    return ApprovalRule(1, (role,), (role,) if role in SEATS else (), excluded)


def _ordered(names: Iterable[str], order: Sequence[str]) -> tuple[str, ...]:
    given = set(names)
    return tuple(name for name in order if name in given)


def _listed(names: Sequence[str], joined_by: str) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {joined_by} {names[-1]}"
