"""The floor's forms: what is typed, checked for shape; what it means is the services' business."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from console.errors import CovenantError
from console.models import JobState, Role, User
from console.rules.permissions import SCOPES

SCOPE_WORDS = {
    "read": _("Read everything that you may read"),
    "write": _("Register models, upload, propose, ask for releases"),
    "sign": _("Sign contracts and releases, manage signing keys"),
    "operate": _("Deploy, move traffic, roll back"),
    "admin": _("Manage people, environments and tokens"),
}


class ServiceForm(forms.Form):
    """A form that can show the refusal of a service where it belongs."""

    def add_refusal(self, error: CovenantError) -> None:
        """Show a service's errors at their fields, what has no field of its own above them."""
        placed = False
        for fault in error.errors:
            name = fault.pointer.lstrip("/")
            if name in self.fields:
                self.add_error(name, fault.detail)
                placed = True
        if not placed:
            self.add_error(None, " ".join(part for part in (error.message, error.hint) if part))


class SignInForm(ServiceForm):
    username = forms.CharField(
        label=_("User name"),
        max_length=64,
        widget=forms.TextInput(
            attrs={"autocomplete": "username", "autocapitalize": "none", "autofocus": True}
        ),
    )
    password = forms.CharField(
        label=_("Password"),
        max_length=200,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


class CodeForm(ServiceForm):
    code = forms.CharField(
        label=_("Code"),
        max_length=40,
        widget=forms.TextInput(
            attrs={
                "autocomplete": "one-time-code",
                "autocapitalize": "none",
                "spellcheck": "false",
                "autofocus": True,
                "class": "code-input",
            }
        ),
    )


class PasswordForm(ServiceForm):
    old = forms.CharField(
        label=_("Present password"),
        max_length=200,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    password = forms.CharField(
        label=_("New password"),
        max_length=200,
        strip=False,
        help_text=_("At least 8 characters, none of the common ones, not only digits."),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )


class ReasonForm(ServiceForm):
    reason = forms.CharField(label=_("Reason"), max_length=300)


class TokenForm(ServiceForm):
    name = forms.CharField(
        label=_("Name"), max_length=80, help_text=_("What it is for, as in “CI of fraud_detector”.")
    )
    scopes = forms.MultipleChoiceField(
        label=pgettext_lazy("token", "May"),
        choices=[(scope, SCOPE_WORDS[scope]) for scope in SCOPES],
        widget=forms.CheckboxSelectMultiple,
        initial=["read"],
        help_text=_("A token can do less than you, never more."),
    )
    days = forms.IntegerField(label=_("Days until it expires"), min_value=1, max_value=365)


class PersonForm(ServiceForm):
    username = forms.SlugField(
        label=_("User name"), max_length=64, help_text=_("Letters, digits, hyphen, underscore.")
    )
    display_name = forms.CharField(label=_("Full name"), max_length=120, required=False)
    email = forms.EmailField(label=_("E-mail"), required=False)
    roles = forms.MultipleChoiceField(
        label=_("Roles"),
        choices=Role.choices,
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text=_("Without a role a person can read, and nothing else."),
    )


class RolesForm(ServiceForm):
    roles = forms.MultipleChoiceField(
        label=_("Roles"), choices=Role.choices, widget=forms.CheckboxSelectMultiple, required=False
    )
    reason = forms.CharField(label=_("Reason"), max_length=300, required=False)


class JobFilterForm(forms.Form):
    """Filters of the job list; whatever is not understood filters nothing."""

    STATES: ClassVar[list[tuple[str, Any]]] = [
        ("", _("Any state")),
        ("active", _("Queued or running")),
        ("ended_badly", _("Failed or errored")),
        *JobState.choices,
    ]

    q = forms.CharField(required=False, max_length=200)
    state = forms.ChoiceField(required=False, choices=STATES)
    kind = forms.ChoiceField(required=False)
    person = forms.CharField(required=False, max_length=64)
    subject = forms.CharField(required=False, max_length=200)

    def __init__(self, *args: Any, kinds: list[tuple[str, Any]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        kind = self.fields["kind"]
        if isinstance(kind, forms.ChoiceField):
            kind.choices = [("", _("Any kind")), *kinds]


def person_initial(person: User) -> dict[str, Any]:
    """What the form of a person's roles starts with."""
    return {"roles": person.roles}
