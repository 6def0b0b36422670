"""Forms of signing keys."""

from __future__ import annotations

from datetime import UTC, datetime

from django import forms
from django.utils.translation import gettext_lazy as _

from console.forms import ServiceForm
from console.models import RevocationKind
from console.rules.key_life import LIFETIME_DAYS

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
KIND_WORDS = {
    RevocationKind.LOST: _("It is lost: nobody has it, or nobody who could use it"),
    RevocationKind.COMPROMISED: _("Somebody else may have it, or have used it"),
    RevocationKind.REPLACED: _("Another key has taken its place"),
    RevocationKind.LEFT: _("Its owner has left"),
    RevocationKind.OTHER: _("Something else"),
}


class KeyForm(ServiceForm):
    """A key whose public half is typed or pasted."""

    name = forms.CharField(
        label=_("Name"),
        max_length=80,
        help_text=_("Where the key lives, as in “laptop” or “office PC”."),
    )
    public_key = forms.CharField(
        label=_("Public key"),
        max_length=8192,
        help_text=_("PEM text of the public half, as “covenant keys create” prints it."),
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "mono"}),
    )
    days = forms.IntegerField(
        label=_("Days until it expires"),
        required=False,
        min_value=1,
        max_value=max(LIFETIME_DAYS.values()),
        help_text=_("730 at most, 365 for the key of a browser; so many when left empty."),
    )
    replaces = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    rotation = forms.CharField(required=False, max_length=8192, widget=forms.HiddenInput)


class RevokeKeyForm(ServiceForm):
    """What became of a key."""

    kind = forms.ChoiceField(
        label=_("What happened"),
        choices=KIND_WORDS.items(),
        widget=forms.RadioSelect,
        initial=RevocationKind.LOST,
    )
    doubted_from = forms.DateTimeField(
        label=_("Since when (UTC)"),
        required=False,
        help_text=_(
            "Only when somebody else may have it: the earliest time that you cannot rule out. "
            "What it signed since then no longer counts."
        ),
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    reason = forms.CharField(
        label=_("Reason"),
        max_length=300,
        help_text=_("Kept in the audit trail with your name."),
        widget=forms.Textarea(attrs={"rows": 2}),
    )


class EffectForm(forms.Form):
    """What a revocation would be, as far as it is filled in yet."""

    kind = forms.ChoiceField(choices=RevocationKind.choices)
    doubted_from = forms.DateTimeField(required=False)

    def clean(self) -> dict[str, object]:
        """Only a compromised key is doubted; before a time is named, from the beginning."""
        found: dict[str, object] = super().clean() or {}
        if found.get("kind") != RevocationKind.COMPROMISED:
            found["doubted_from"] = None
        elif found.get("doubted_from") is None:
            found["doubted_from"] = BEGINNING
        return found
