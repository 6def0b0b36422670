"""The forms of channels, routes and the log of messages."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from console.forms import ServiceForm
from console.models import Team
from deployments.models import (
    AlertChannel,
    AlertRoute,
    AlertSeverity,
    DeliveryReason,
    DeliveryState,
    EscalationPolicy,
    OnCallSchedule,
    TellPeople,
)
from deployments.rules.alerts.channel_options import CONTENT_TYPES, PAGERDUTY_EVENTS, SMS_FORM
from deployments.rules.alerts.route_terms import RouteTerms
from models_registry.models import Environment

ADDRESSES: dict[str, tuple[Any, Any]] = {
    "email": (
        _("Mail addresses"),
        _("One to twenty, with commas between; each gets its own mail."),
    ),
    "webhook": (
        _("Address"),
        _("https://host/path. Messages are signed; the secret is made here."),
    ),
    "slack": (
        _("Address of the webhook"),
        _("An incoming webhook of Slack, Mattermost or Rocket.Chat."),
    ),
    "feishu": (_("Address of the robot"), _("A custom robot of a Feishu or Lark group.")),
    "dingtalk": (_("Address of the robot"), _("A custom robot of a DingTalk group.")),
    "pagerduty": (
        _("Address of the events"),
        _("Left empty: the US region. The EU has https://events.eu.pagerduty.com/v2/enqueue."),
    ),
    "sms": (_("Address of the gateway"), _("Where text messages are posted to.")),
}
SECRETS: dict[str, tuple[Any, Any]] = {
    "feishu": (_("Secret"), _("Where the robot asks for a signature. Never shown again.")),
    "dingtalk": (_("Secret"), _("Where the robot asks for a signature. Never shown again.")),
    "pagerduty": (
        _("Integration key"),
        _("32 letters and digits, of an integration by Events API v2. Never shown again."),
    ),
    "sms": (_("Key"), _("The value of the header below. Never shown again.")),
}
NO_ADDRESS = frozenset({"pagerduty"})


class ChannelForm(ServiceForm):
    """What one kind of channel is made of; when it is changed, what is left empty stays."""

    name = forms.SlugField(
        label=_("Name"), max_length=40, help_text=_("Letters, digits, hyphen, underscore.")
    )
    address = forms.CharField(max_length=1000, required=False)
    secret = forms.CharField(
        max_length=300,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    to = forms.CharField(
        label=_("Telephone numbers"),
        max_length=500,
        help_text=_("One to twenty, with commas between, as in +1 555 0100."),
    )
    form = forms.CharField(
        label=_("Form of the request"),
        max_length=2000,
        initial=SMS_FORM,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "mono"}),
        help_text=_("{to} and {text} are filled in."),
    )
    content_type = forms.ChoiceField(
        label=_("Type of the request"), choices=[(one, one) for one in CONTENT_TYPES]
    )
    header = forms.CharField(label=_("Header of the key"), max_length=60, initial="Authorization")
    language = forms.ChoiceField(
        label=_("Language of the messages"),
        required=False,
        choices=[("", _("That of the installation")), *settings.LANGUAGES],
    )
    OF_TEXTS: ClassVar[tuple[str, ...]] = ("to", "form", "content_type", "header")

    def __init__(self, data: Any = None, *, kind: str, changed: AlertChannel | None = None) -> None:
        if changed is not None:
            options = {
                **changed.options,
                "to": ", ".join(changed.options.get("to", [])),
                "language": changed.language,
            }
            super().__init__(data, initial=options)
            del self.fields["name"]
        else:
            super().__init__(data)
        self.kind = kind
        label, help_text = ADDRESSES[kind]
        address = self.fields["address"]
        address.label, address.help_text = label, help_text
        address.required = changed is None and kind not in NO_ADDRESS
        if changed is not None:
            address.widget.attrs["placeholder"] = changed.shown
            address.help_text = _("Left empty, it stays as it is.")
        if kind == "pagerduty" and changed is None:
            address.widget.attrs["placeholder"] = PAGERDUTY_EVENTS
        if kind in SECRETS:
            secret = self.fields["secret"]
            secret.label, secret.help_text = SECRETS[kind]
            secret.required = changed is None and kind == "pagerduty"
            if changed is not None:
                secret.help_text = _("Left empty, it stays as it is. Never shown again.")
        else:
            del self.fields["secret"]
        if kind != "sms":
            for field in self.OF_TEXTS:
                del self.fields[field]

    def given(self) -> dict[str, Any]:
        """What the service takes."""
        found = dict(self.cleaned_data)
        if self.kind == "sms":
            found["options"] = {name: found.pop(name) for name in self.OF_TEXTS}
        return found

    def add_refusal(self, error: Any) -> None:
        """A fault of an option stands at the option's field."""
        for fault in error.errors:
            name = fault.pointer.rpartition("/")[2]
            if name in self.fields:
                self.add_error(name, fault.detail)
                return
        super().add_refusal(error)


class DeliveryFilterForm(forms.Form):
    """Filters of the log; whatever is not understood filters nothing."""

    q = forms.CharField(required=False, max_length=200)
    state = forms.ChoiceField(
        required=False, choices=[("", _("Any state")), *DeliveryState.choices]
    )
    why = forms.ChoiceField(
        required=False, choices=[("", _("Whatever for")), *DeliveryReason.choices]
    )
    channel = forms.CharField(required=False, max_length=40)


class RouteForm(ServiceForm):
    """A route in plain words: what it takes above, where it leads below."""

    name = forms.SlugField(
        label=_("Name"), max_length=40, help_text=_("Letters, digits, hyphen, underscore.")
    )
    position = forms.IntegerField(
        label=_("Place in the order"),
        min_value=0,
        max_value=32767,
        initial=50,
        help_text=_("Lower ones are looked at first."),
    )
    severities = forms.MultipleChoiceField(
        label=_("Severity"),
        required=False,
        choices=AlertSeverity.choices,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("None chosen: every one."),
    )
    environment = forms.ModelChoiceField(
        label=_("Environment"),
        required=False,
        to_field_name="name",
        queryset=Environment.objects.none(),
        empty_label=_("Every environment"),
    )
    model = forms.CharField(
        label=_("Model"), max_length=63, required=False, help_text=_("Empty: every model.")
    )
    team = forms.ModelChoiceField(
        label=_("Team"),
        required=False,
        to_field_name="slug",
        queryset=Team.objects.none(),
        empty_label=_("Every team"),
    )
    rule_name = forms.CharField(
        label=_("Rule"),
        max_length=80,
        required=False,
        help_text=_("With * for any letters, as in gpu-*; “incident” takes incidents alone."),
    )
    label = forms.CharField(
        label=_("Series"),
        max_length=120,
        required=False,
        help_text=_("The label of a series, a feature say; with * for any letters."),
    )
    channels = forms.ModelMultipleChoiceField(
        label=_("Channels"),
        required=False,
        to_field_name="name",
        queryset=AlertChannel.objects.none(),
        widget=forms.CheckboxSelectMultiple,
    )
    people = forms.ChoiceField(
        label=_("People"),
        choices=TellPeople.choices,
        initial=TellPeople.INBOX,
        widget=forms.RadioSelect,
    )
    schedule = forms.ModelChoiceField(
        label=_("On call by"),
        required=False,
        to_field_name="name",
        queryset=OnCallSchedule.objects.none(),
        empty_label=_("The schedule that covers the model, else its SRE seat"),
    )
    policy = forms.ModelChoiceField(
        label=_("When nobody acknowledges"),
        required=False,
        to_field_name="name",
        queryset=EscalationPolicy.objects.none(),
        empty_label=_("Nobody else is told"),
    )
    goes_on = forms.BooleanField(label=_("Look at the routes after it as well"), required=False)
    enabled = forms.BooleanField(label=_("In force"), required=False, initial=True)
    revision = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, changed: AlertRoute | None = None) -> None:
        super().__init__(data, initial=_initial(changed) if changed else None)
        self.fields["environment"].queryset = Environment.objects.order_by("name")  # type: ignore[attr-defined]
        self.fields["team"].queryset = Team.objects.order_by("slug")  # type: ignore[attr-defined]
        self.fields["channels"].queryset = AlertChannel.objects.order_by("name")  # type: ignore[attr-defined]
        self.fields["schedule"].queryset = OnCallSchedule.objects.order_by("name")  # type: ignore[attr-defined]
        self.fields["policy"].queryset = EscalationPolicy.objects.order_by("name")  # type: ignore[attr-defined]
        if changed is not None:
            del self.fields["name"]

    def terms(self) -> RouteTerms:
        """What was given, by names."""
        found = self.cleaned_data
        return RouteTerms(
            position=found["position"],
            enabled=found["enabled"],
            severities=tuple(found["severities"]),
            environment=found["environment"].name if found["environment"] else "",
            model=found["model"],
            team=found["team"].slug if found["team"] else "",
            rule_name=found["rule_name"],
            label=found["label"],
            channels=tuple(one.name for one in found["channels"]),
            people=found["people"],
            schedule=found["schedule"].name if found["schedule"] else "",
            policy=found["policy"].name if found["policy"] else "",
            goes_on=found["goes_on"],
        )


def _initial(route: AlertRoute) -> dict[str, Any]:
    return {
        "position": route.position,
        "severities": route.severities,
        "environment": route.environment.name if route.environment else None,
        "model": route.model.name if route.model else "",
        "team": route.team.slug if route.team else None,
        "rule_name": route.rule_name,
        "label": route.label,
        "channels": [one.name for one in route.channels.all()],
        "people": route.people,
        "schedule": route.schedule.name if route.schedule else None,
        "policy": route.policy.name if route.policy else None,
        "goes_on": route.goes_on,
        "enabled": route.enabled,
        "revision": route.revision,
    }
