"""The form of an endpoint's routing rules: who goes where besides the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from console.forms import ServiceForm
from deployments.rules.traffic.routing_rules import MOST_RULES, MOST_TESTERS


class _VersionForm(forms.Form):
    """A row that names a version; a row that is empty but for it is none."""

    subjects: tuple[str, ...] = ()

    def __init__(self, *args: Any, versions: Sequence[int], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["version"] = forms.TypedChoiceField(
            label=_("Version"),
            choices=[(number, f"v{number}") for number in versions],
            coerce=int,
        )

    def has_changed(self) -> bool:
        """Whether the row says anything."""
        return any(self[name].data for name in self.subjects) if self.is_bound else False


class HeaderRuleForm(_VersionForm):
    subjects = ("header", "value")

    header = forms.CharField(label=_("Header"), max_length=80)
    value = forms.CharField(label=_("has exactly the value"), max_length=256)


class TesterForm(_VersionForm):
    subjects = ("caller",)

    caller = forms.CharField(label=_("Caller"), max_length=256)


HeaderRuleForms = forms.formset_factory(
    HeaderRuleForm, extra=2, max_num=MOST_RULES, validate_max=True, can_delete=True
)
TesterForms = forms.formset_factory(
    TesterForm, extra=2, max_num=MOST_TESTERS, validate_max=True, can_delete=True
)


class RoutingForm(ServiceForm):
    """Sticky header, mirror and the reason; the rows stand beside it."""

    sticky_header = forms.CharField(
        label=_("Sticky by header"),
        max_length=80,
        help_text=_("Callers with the same value get the same version, as long as they can."),
    )
    mirror_version = forms.TypedChoiceField(
        label=_("Mirror to"),
        coerce=int,
        required=False,
        help_text=_("It gets copies of requests; its answers are thrown away, and counted apart."),
    )
    mirror_percent = forms.DecimalField(
        label=_("of the requests"), min_value=0, max_value=100, decimal_places=2, initial=100
    )
    reason = forms.CharField(label=_("Reason"), max_length=500)
    revision = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, versions: Sequence[int], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["mirror_version"]
        if isinstance(field, forms.ChoiceField):
            field.choices = [("", _("no version")), *((n, f"v{n}") for n in versions)]
