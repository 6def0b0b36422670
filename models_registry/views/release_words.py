"""Policies and conditions in the reader's own language: the same facts as the rule's sentences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.utils.formats import date_format
from django.utils.text import capfirst, get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.models import Role, User
from models_registry.models import ReleaseApproval, ReleaseState, Seat
from models_registry.rules import approval_policy as policy_rule
from models_registry.rules.approval_policy import Condition, Verdict
from models_registry.rules.approval_rules import (
    REQUESTER,
    UPLOADER,
    Approval,
    ApprovalRule,
    counts,
)
from models_registry.rules.freezes import Frozen
from models_registry.selectors.releases import ReleasePage

FEW = 5
LOOKS = {
    policy_rule.APPROVAL: "key",
    policy_rule.CONTRACT: "contract",
    policy_rule.CONTRACT_EXPIRED: "contract",
    policy_rule.LOAD_TEST: "chart",
    policy_rule.FROZEN: "lock",
}


def rule_words(rule: ApprovalRule, count: int | None = None) -> str:
    """An approval rule, as in “2 × SRE, who did not upload it”."""
    words = who_words(rule, count)
    excluded = set(rule.excluded)
    if excluded == {REQUESTER, UPLOADER}:
        return _("%(who)s, who neither asked for it nor uploaded it") % {"who": words}
    if excluded == {REQUESTER}:
        return _("%(who)s, who did not ask for it") % {"who": words}
    if excluded == {UPLOADER}:
        return _("%(who)s, who did not upload it") % {"who": words}
    return words


def who_words(rule: ApprovalRule, count: int | None = None) -> str:
    """Who may give it and how many: “1 SRE or platform admin”, “2 × SRE”."""
    number = rule.count if count is None else count
    roles, seats = dict(Role.choices), dict(Seat.choices)
    names = [str(roles[role]) for role in rule.roles]
    names += [
        _("the model’s %(seat)s") % {"seat": seats[seat]}
        for seat in rule.seats
        if seat not in rule.roles
    ]
    who = get_text_list(names, _("or"))
    if number == 1:
        return who if not rule.roles else _("1 %(who)s") % {"who": who}
    return _("%(n)s × %(who)s") % {"n": number, "who": who}


def frozen_words(frozen: Frozen) -> str:
    """Until when, in the reader's language; times are UTC."""
    if frozen.until is None:
        return _("until a window is lifted")
    return _("until %(when)s") % {"when": moment_words(frozen.until)}


def moment_words(moment: datetime) -> str:
    """A moment with its weekday, in UTC."""
    # A format of Django's own, for the reader's language.
    return f"{date_format(moment.astimezone(UTC), _('l, j F Y, H:i'))} UTC"


def span_words(start: datetime, end: datetime) -> str:
    """From one moment to another, in UTC."""
    return _("%(start)s to %(end)s") % {"start": moment_words(start), "end": moment_words(end)}


def condition_rows(page: ReleasePage, user: User) -> list[dict[str, Any]]:
    """Each condition of the policy as the page shows it: state, words, who gave it, who can."""
    given = {one.person.username: one for one in page.approvals if one.approved}
    return [_row(page, condition, given, user) for condition in page.verdict.conditions]


def policy_words(verdict: Verdict) -> str:
    """What the policy asks for, in a sentence."""
    rules = [one for one in verdict.approvals if one.rule]
    name = {"name": verdict.environment}
    if not rules:
        return _("%(name)s asks for no approval: the release is approved by policy.") % name
    return _("What %(name)s asks for. One person counts once.") % name


def _row(
    page: ReleasePage, condition: Condition, given: dict[str, ReleaseApproval], user: User
) -> dict[str, Any]:
    state = "passed" if condition.met else "waived" if condition.waived else "failed"
    row: dict[str, Any] = {
        "condition": condition,
        "icon": LOOKS[condition.code],
        "state": state,
        "title": _title(page, condition),
        "detail": _detail(page, condition),
        "given": [given[one.person] for one in condition.approvals if one.person in given],
        "lapsed": [given[one.person] for one in condition.lapsed if one.person in given],
        "doubted": any(one.doubted for one in condition.lapsed),
        "people": [],
        "more": 0,
        "mine": False,
        "asks": condition.rule is not None
        and not condition.holds
        and page.release.state in (ReleaseState.PROPOSED, ReleaseState.APPROVED),
    }
    if condition.rule is not None and not condition.holds:
        able = [
            person
            for person, approval in page.people
            if counts(condition.rule, approval, page.authors)
        ]
        row["people"], row["more"] = able[:FEW], max(0, len(able) - FEW)
        row["nobody"] = not able
        row["mine"] = bool(page.can_decide_as) and user in able
    return row


def _title(page: ReleasePage, condition: Condition) -> str:
    if condition.rule is not None:
        return capfirst(rule_words(condition.rule))
    if condition.code == policy_rule.LOAD_TEST:
        return _("A load test of this version")
    if condition.code == policy_rule.FROZEN:
        return _("%(name)s is frozen") % {"name": page.policy.environment}
    return _("A contract in force")


def _detail(page: ReleasePage, condition: Condition) -> str:
    if condition.rule is not None:
        if condition.met:
            return _("Approved.")
        return ngettext(
            "%(n)s approval is missing.", "%(n)s approvals are missing.", condition.missing
        ) % {"n": condition.missing}
    if condition.frozen is not None:
        return f"{frozen_words(condition.frozen)}: {condition.frozen.window.why}"
    if condition.code == policy_rule.LOAD_TEST:
        return _("Passed.") if condition.met else _("None has passed yet.")
    contract = page.release.contract
    if contract is None:
        return _("The release names none.")
    return _("Revision %(revision)s: %(state)s.") % {
        "revision": contract.revision,
        "state": contract.get_state_display(),
    }


def preview_words(conditions: Sequence[Condition]) -> list[str]:
    """What a release would miss, briefly."""
    words = []
    for one in conditions:
        if one.rule is not None:
            words.append(rule_words(one.rule, one.missing))
        elif one.frozen is not None:
            words.append(_("frozen %(until)s") % {"until": frozen_words(one.frozen)})
        elif one.code == policy_rule.LOAD_TEST:
            words.append(_("a load test"))
        else:
            words.append(_("a contract in force"))
    return words


def waived_words(code: str) -> str:
    """The name of what was waived."""
    return {
        policy_rule.APPROVAL: _("approvals"),
        policy_rule.CONTRACT: _("contract in force"),
        policy_rule.CONTRACT_EXPIRED: _("contract in force"),
        policy_rule.LOAD_TEST: _("load test"),
        policy_rule.FROZEN: _("freeze"),
    }.get(code, code)


def held_words(approval: Approval) -> str:
    """The roles that a person holds, for a list of who can approve."""
    labels = dict(Role.choices)
    return get_text_list([str(labels[role]) for role in sorted(approval.roles) if role in labels])
