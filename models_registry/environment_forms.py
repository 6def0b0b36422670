"""The form of an environment's policy: its approval rules as rows, the rest as fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.forms.formsets import BaseFormSet
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from console.errors import CovenantError
from console.models import Role
from models_registry.forms import RegistryForm
from models_registry.models import Seat
from models_registry.rules.approval_rules import EXCLUDABLE, REQUESTER, ROLES, UPLOADER

PREFIX = "rule"
MOST_RULES = 10


class RuleForm(forms.Form):
    """One rule: how many, by whom, and not by whom. A row without a role and a seat is none."""

    count = forms.IntegerField(label=_("How many"), min_value=1, max_value=9, initial=1)
    roles = forms.MultipleChoiceField(
        label=_("Holders of any of these roles"),
        choices=[choice for choice in Role.choices if choice[0] in ROLES],
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    seats = forms.MultipleChoiceField(
        label=_("or of these seats of the model"),
        choices=Seat.choices,
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    excluded = forms.MultipleChoiceField(
        label=_("but not"),
        choices=[(REQUESTER, _("who asked for it")), (UPLOADER, _("who uploaded it"))],
        required=False,
        initial=list(EXCLUDABLE),
        widget=forms.CheckboxSelectMultiple,
    )


RuleForms = forms.formset_factory(
    RuleForm, extra=0, can_delete=True, max_num=MOST_RULES, validate_max=True
)


class EnvironmentForm(RegistryForm):
    """An environment's policy, its approval rules apart."""

    description = forms.CharField(label=_("Description"), max_length=200, required=False)
    requires_contract = forms.BooleanField(label=_("A contract must be in force"), required=False)
    approval_valid_days = forms.IntegerField(
        label=_("An approval counts for so many days"),
        min_value=1,
        max_value=3650,
        required=False,
        help_text=_("Afterwards nothing new is deployed by it; what runs goes on. Empty: always."),
    )
    break_glass_roles = forms.MultipleChoiceField(
        label=_("Who may release against this policy, in an emergency"),
        choices=[(Role.SRE, Role.SRE.label), (Role.PLATFORM_ADMIN, Role.PLATFORM_ADMIN.label)],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_(
            "Signed, with a reason, seen by everybody for good, and looked into by another person. "
            "Nobody may when none is chosen."
        ),
    )
    production = forms.BooleanField(
        label=_("Customers rely on it: load-testing it takes a permission of its own"),
        required=False,
    )
    requires_load_test = forms.BooleanField(
        label=_("The version must have passed a load test in another environment"), required=False
    )
    load_test_p95_ms = forms.FloatField(
        label=_("Load test: P95 at most, ms"), initial=50, min_value=0.001, required=False
    )
    load_test_success = forms.FloatField(
        label=_("Load test: requests that succeed, %"),
        initial=100,
        min_value=0.001,
        max_value=100,
        required=False,
    )


class NewEnvironmentForm(EnvironmentForm):
    name = forms.CharField(
        label=_("Name"), max_length=40, help_text=_("Lower case, as in staging.")
    )
    field_order = ("name", *EnvironmentForm.base_fields)


class FreezeForm(RegistryForm):
    """A freeze window; times are UTC, as the form says."""

    name = forms.CharField(label=_("Name"), max_length=80)
    starts_at = forms.DateTimeField(
        label=_("From (UTC)"),
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    ends_at = forms.DateTimeField(
        label=_("Until (UTC)"),
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    weekly = forms.BooleanField(label=_("Again every week"), required=False)
    reason = forms.CharField(label=_("Reason"), max_length=300)


def rule_forms(written: Sequence[dict[str, Any]], data: QueryDict | None) -> BaseFormSet[RuleForm]:
    """The rows: as they were sent, with one more when a row was asked for; else as stored."""
    initial = [
        {
            "count": one["count"],
            "roles": one.get("roles", []),
            "seats": one.get("seats", []),
            "excluded": one.get("not", []),
        }
        for one in written
    ]
    if data is None:
        rows: BaseFormSet[RuleForm] = RuleForms(initial=initial, prefix=PREFIX)
        return rows
    return RuleForms(data, prefix=PREFIX)


def with_one_more(data: QueryDict) -> QueryDict:
    """What was sent, with an empty row behind the last."""
    more = data.copy()
    total = int(data.get(f"{PREFIX}-TOTAL_FORMS") or 0)
    if total < MOST_RULES:
        more[f"{PREFIX}-TOTAL_FORMS"] = str(total + 1)
        more[f"{PREFIX}-{total}-count"] = "1"
        more.setlist(f"{PREFIX}-{total}-excluded", list(EXCLUDABLE))
    return more


def kept_rows(rows: BaseFormSet[RuleForm]) -> list[RuleForm]:
    """The rows that are rules: not removed, and naming somebody."""
    return [
        row
        for row in rows.forms
        if not row.cleaned_data.get("DELETE")
        and (row.cleaned_data.get("roles") or row.cleaned_data.get("seats"))
    ]


def written_rules(rows: BaseFormSet[RuleForm]) -> list[dict[str, Any]]:
    """The rows in the rules' JSON form."""
    return [
        {
            "count": row.cleaned_data["count"],
            "roles": row.cleaned_data["roles"],
            "seats": row.cleaned_data["seats"],
            "not": row.cleaned_data["excluded"],
        }
        for row in kept_rows(rows)
    ]


def add_refusal(form: EnvironmentForm, rows: BaseFormSet[RuleForm], error: CovenantError) -> None:
    """Each fault of a rule in its row, the rest at the form."""
    kept, elsewhere = kept_rows(rows), not error.errors
    for fault in error.errors:
        parts = fault.pointer.strip("/").split("/")
        if parts[0] == "approval_rules" and len(parts) > 1 and parts[1].isdigit():
            kept[int(parts[1])].add_error(None, fault.detail)
        else:
            elsewhere = True
    if elsewhere:
        form.add_refusal(error)
