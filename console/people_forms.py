"""Forms of the pages on people: teams, invitations, successors, programs' accounts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from console.errors import CovenantError
from console.forms import SCOPE_WORDS, ServiceForm
from console.models import Role, Team
from console.rules.duties import Duty
from console.rules.invitations import FEWEST_DAYS, MOST_DAYS, USUAL_DAYS
from console.services.service_accounts import MACHINE_ROLES
from console.services.teams import TEAM_ROLES
from console.services.tokens import MACHINE_SCOPES

TEAM_ROLE_CHOICES = [choice for choice in Role.choices if choice[0] in TEAM_ROLES]
MACHINE_ROLE_CHOICES = [choice for choice in Role.choices if choice[0] in MACHINE_ROLES]
PEOPLE_LIST = {"list": "people-names", "autocapitalize": "none", "autocomplete": "off"}


class PeopleFilterForm(forms.Form):
    """Filters of the list of people; whatever is not understood filters nothing."""

    q = forms.CharField(required=False, max_length=100)
    role = forms.ChoiceField(required=False, choices=[("", _("Any role")), *Role.choices])
    team = forms.SlugField(required=False, max_length=64)
    state = forms.ChoiceField(
        required=False,
        choices=[
            ("active", _("Active")),
            ("deactivated", _("Deactivated")),
            ("all", _("Any state")),
        ],
    )

    def wanted(self) -> dict[str, str]:
        """What to filter by."""
        self.is_valid()
        found = {name: self.cleaned_data.get(name) or "" for name in self.fields}
        return {**found, "state": found["state"] or "active"}


class TeamForm(ServiceForm):
    name = forms.CharField(label=_("Name"), max_length=80)
    slug = forms.SlugField(
        label=_("Short name"),
        max_length=64,
        required=False,
        help_text=_("For addresses; made of the name when left out, and never changed."),
    )
    description = forms.CharField(label=_("What it does"), max_length=200, required=False)


class TeamChangeForm(ServiceForm):
    name = forms.CharField(label=_("Name"), max_length=80)
    description = forms.CharField(label=_("What it does"), max_length=200, required=False)


class MemberForm(ServiceForm):
    username = forms.CharField(
        label=_("Person"),
        max_length=64,
        help_text=_("The user name."),
        widget=forms.TextInput(attrs=PEOPLE_LIST),
    )
    roles = forms.MultipleChoiceField(
        label=_("Roles in this team"),
        choices=TEAM_ROLE_CHOICES,
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text=_("They hold for this team's models. Without any the person sees what it sees."),
    )


class InvitationForm(ServiceForm):
    email = forms.EmailField(label=_("E-mail"))
    display_name = forms.CharField(label=_("Full name"), max_length=120, required=False)
    username = forms.SlugField(
        label=_("User name"),
        max_length=64,
        required=False,
        help_text=_("Made of the address when left out."),
    )
    roles = forms.MultipleChoiceField(
        label=_("Roles"), choices=Role.choices, widget=forms.CheckboxSelectMultiple, required=False
    )
    team = forms.ModelChoiceField(
        label=_("Team"),
        queryset=Team.objects.order_by("name"),
        to_field_name="slug",
        required=False,
        empty_label=_("None"),
    )
    team_roles = forms.MultipleChoiceField(
        label=_("Roles in this team"),
        choices=TEAM_ROLE_CHOICES,
        widget=forms.CheckboxSelectMultiple,
        required=False,
    )
    days = forms.IntegerField(
        label=_("Days until it expires"),
        min_value=FEWEST_DAYS,
        max_value=MOST_DAYS,
        initial=USUAL_DAYS,
    )

    def wanted(self) -> dict[str, Any]:
        """The arguments of the service."""
        data = dict(self.cleaned_data)
        team, team_roles = data.pop("team"), data.pop("team_roles")
        return {**data, "teams": [{"team": team.slug, "roles": team_roles}] if team else []}


class AcceptForm(ServiceForm):
    password = forms.CharField(
        label=_("Password"),
        max_length=200,
        strip=False,
        help_text=_("At least 8 characters, none of the common ones, not only digits."),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "autofocus": True}),
    )
    again = forms.CharField(
        label=_("The same again"),
        max_length=200,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean(self) -> dict[str, Any] | None:
        data = super().clean() or {}
        if "again" in data and data.get("password") != data["again"]:
            self.add_error("again", gettext("The two are not the same."))
        return data


class DepartureForm(ServiceForm):
    """A successor for each thing that is handed over; its field is named like the duty's key."""

    reason = forms.CharField(
        label=_("Reason"),
        max_length=300,
        help_text=_("Kept in the audit trail with your name."),
    )

    def __init__(self, *args: Any, duties: Iterable[Duty], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.duties = list(duties)
        for duty in self.duties:
            self.fields[duty.key] = forms.CharField(
                label=_("Successor"),
                max_length=64,
                widget=forms.TextInput(
                    attrs={**PEOPLE_LIST, "list": f"fit-{duty.key.replace(':', '-')}"}
                ),
            )

    def rows(self) -> list[tuple[Duty, forms.BoundField, str]]:
        """Each duty with its field and the id of its list of suggestions."""
        return [(duty, self[duty.key], f"fit-{duty.key.replace(':', '-')}") for duty in self.duties]

    def successors(self) -> dict[str, str]:
        """The user name for each duty."""
        return {duty.key: self.cleaned_data[duty.key] for duty in self.duties}

    def add_refusal(self, error: CovenantError) -> None:
        """Show each unfit successor where it was named, and the rest above."""
        places = [fault.pointer.removeprefix("/successors/") for fault in error.errors]
        for place, fault in zip(places, error.errors, strict=True):
            if place in self.fields:
                self.add_error(place, fault.detail)
        if not any(place in self.fields for place in places):
            super().add_refusal(error)


class ServiceAccountForm(ServiceForm):
    username = forms.SlugField(
        label=_("User name"), max_length=64, help_text=_("As in “ci-fraud”; it is never changed.")
    )
    display_name = forms.CharField(label=_("What it is"), max_length=120, required=False)
    team = forms.ModelChoiceField(
        label=_("Owner team"),
        queryset=Team.objects.order_by("name"),
        to_field_name="slug",
        empty_label=_("Choose a team"),
        help_text=_("It answers for the program, and the roles hold for its models."),
    )
    roles = forms.MultipleChoiceField(
        label=_("Roles in this team"),
        choices=MACHINE_ROLE_CHOICES,
        widget=forms.CheckboxSelectMultiple,
        required=False,
    )

    def wanted(self) -> dict[str, Any]:
        """The arguments of the service."""
        return {**self.cleaned_data, "team": self.cleaned_data["team"].slug}


class ServiceAccountChangeForm(ServiceAccountForm):
    """All but the name, which audit entries and tokens hold."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["username"]


class AccountTokenForm(ServiceForm):
    name = forms.CharField(
        label=_("Name"), max_length=80, help_text=_("Where it is used, as in “nightly export”.")
    )
    scopes = forms.MultipleChoiceField(
        label=pgettext_lazy("token", "May"),
        choices=[(scope, SCOPE_WORDS[scope]) for scope in MACHINE_SCOPES],
        widget=forms.CheckboxSelectMultiple,
        initial=["read"],
    )
    days = forms.IntegerField(label=_("Days until it expires"), min_value=1, max_value=365)


class WorkloadForm(ServiceForm):
    name = forms.CharField(
        label=_("Name"), max_length=80, help_text=_("As in “main branch of fraud-models”.")
    )
    issuer = forms.CharField(
        label=_("Issuer"),
        max_length=300,
        help_text=_("The “iss” of its tokens, as in https://gitlab.example.com."),
        widget=forms.URLInput(attrs={"autocapitalize": "none"}),
    )
    audience = forms.CharField(
        label=_("Audience"),
        max_length=200,
        help_text=_("The “aud” that the job asks for: best the address of this console."),
    )
    claims = forms.CharField(
        label=_("Claims"),
        max_length=4000,
        help_text=_("JSON; “sub” is needed, and a * at the end of a value stands for any end."),
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "mono"}),
        initial='{\n  "sub": "project_path:risk/fraud-models:ref_type:branch:ref:main"\n}',
    )
    scopes = forms.MultipleChoiceField(
        label=pgettext_lazy("token", "May"),
        choices=[(scope, SCOPE_WORDS[scope]) for scope in MACHINE_SCOPES],
        widget=forms.CheckboxSelectMultiple,
        initial=["read", "write"],
    )

    def clean_claims(self) -> dict[str, Any]:
        try:
            found = json.loads(self.cleaned_data["claims"])
        except ValueError as error:
            raise forms.ValidationError(gettext("This is not JSON: %s") % error) from error
        if not isinstance(found, dict):
            raise forms.ValidationError(gettext("Give a JSON object: names with their values."))
        return found
