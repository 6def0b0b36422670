"""The forms of access policies, callers and token issuers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from console.errors import CovenantError
from console.forms import ServiceForm
from deployments.rules.access.caller_keys import DEFAULT_DAYS, LONGEST_LIFE
from deployments.rules.access.policies import period_words
from deployments.rules.access.rules import AccessRules, RateLimit, Validation

_ONE_A_LINE = {"rows": 3, "spellcheck": "false", "autocapitalize": "none"}
# Where a fault of the document is shown: the longest pointer that fits.
_PLACES = {
    "/authentication/required": "required",
    "/authentication/api_key": "api_key",
    "/authentication/issuers": "issuers",
    "/allow/callers": "allow_callers",
    "/allow/networks": "allow_networks",
    "/deny/callers": "deny_callers",
    "/deny/networks": "deny_networks",
    "/rate_limits/per_caller/requests": "per_caller_requests",
    "/rate_limits/per_caller/per": "per_caller_per",
    "/rate_limits/per_caller/burst": "per_caller_burst",
    "/rate_limits/total/requests": "total_requests",
    "/rate_limits/total/per": "total_per",
    "/rate_limits/total/burst": "total_burst",
    "/limits/max_body_bytes": "max_body_bytes",
    "/limits/timeout_ms": "timeout_ms",
    "/limits/max_concurrent": "max_concurrent",
    "/retries/onto_baseline": "onto_baseline",
    "/validation": "validation",
}


def _lines(label: Any, help_text: Any = "") -> forms.CharField:
    return forms.CharField(
        label=label,
        required=False,
        max_length=400_000,
        widget=forms.Textarea(attrs=_ONE_A_LINE),
        help_text=help_text,
    )


def _number(label: Any, help_text: Any = "") -> forms.IntegerField:
    return forms.IntegerField(label=label, required=False, min_value=1, help_text=help_text)


class AccessPolicyForm(ServiceForm):
    """An access policy in plain words; `document` gives what the service takes."""

    required = forms.BooleanField(label=_("Every caller has to say who it is"), required=False)
    api_key = forms.BooleanField(label=_("by an API key of this environment"), required=False)
    issuers = forms.MultipleChoiceField(
        label=_("by a token of"), required=False, widget=forms.CheckboxSelectMultiple
    )
    allow_callers = _lines(
        _("Only these callers"), _("One name a line. Empty: every caller is let in.")
    )
    deny_callers = _lines(_("Never these callers"), _("What is denied is denied in any case."))
    allow_networks = _lines(
        _("Only from these networks"), _("One a line, such as 10.0.0.0/8. Empty: from anywhere.")
    )
    deny_networks = _lines(_("Never from these networks"))
    per_caller_requests = _number(_("Requests of each caller"))
    per_caller_per = forms.CharField(label=_("in each"), max_length=12, initial="1s")
    per_caller_burst = _number(_("At once, at most"))
    total_requests = _number(_("Requests of all callers"))
    total_per = forms.CharField(label=_("in each"), max_length=12, initial="1s")
    total_burst = _number(_("At once, at most"))
    max_body_bytes = _number(_("Largest body"), _("Empty: the gateway’s 64 MiB."))
    timeout_ms = _number(_("Time-out"), _("Empty: what the contract says."))
    max_concurrent = _number(_("Requests at one time"), _("Empty: the gateway’s own limit."))
    validation = forms.ChoiceField(
        label=_("A request that does not fit the model’s inputs"),
        choices=[
            (Validation.REFUSE.value, _("is refused before it reaches the model")),
            (Validation.OFF.value, _("goes to the model as it is")),
        ],
        widget=forms.RadioSelect,
    )
    onto_baseline = forms.BooleanField(
        label=_("Ask the version before when a new one fails"), required=False
    )
    reason = forms.CharField(label=_("Reason"), max_length=2000)
    revision = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, issuers: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choice = self.fields["issuers"]
        if isinstance(choice, forms.MultipleChoiceField):
            choice.choices = [(name, name) for name in issuers]

    def document(self) -> dict[str, Any]:
        """The policy as it was filled in."""
        data = self.cleaned_data
        return {
            "authentication": {
                "required": data["required"],
                "api_key": data["api_key"],
                "issuers": data["issuers"],
            },
            "allow": _lists(data, "allow"),
            "deny": _lists(data, "deny"),
            "rate_limits": {one: _rate(data, one) for one in ("per_caller", "total")},
            "limits": {
                one: data[one] for one in ("max_body_bytes", "timeout_ms", "max_concurrent")
            },
            "retries": {"onto_baseline": data["onto_baseline"]},
            "validation": data["validation"],
        }

    def add_refusal(self, error: CovenantError) -> None:
        """Show each fault at the field that its pointer leads to."""
        placed = False
        for fault in error.errors:
            pointer = fault.pointer.lstrip("/")
            fits = [one for one in _PLACES if fault.pointer.startswith(one)]
            name = (
                pointer if pointer in self.fields else _PLACES.get(max(fits, default="", key=len))
            )
            if name:
                self.add_error(name, fault.detail)
                placed = True
        if not placed:
            super().add_refusal(error)


def policy_initial(rules: AccessRules, revision: int) -> dict[str, Any]:
    """What the form of these rules starts with."""
    return {
        "required": rules.required,
        "api_key": rules.api_key,
        "issuers": list(rules.issuers),
        "allow_callers": "\n".join(rules.allow_callers),
        "deny_callers": "\n".join(rules.deny_callers),
        "allow_networks": "\n".join(rules.allow_networks),
        "deny_networks": "\n".join(rules.deny_networks),
        **_rate_initial("per_caller", rules.per_caller),
        **_rate_initial("total", rules.total),
        "max_body_bytes": rules.limits.max_body_bytes,
        "timeout_ms": rules.limits.timeout_ms,
        "max_concurrent": rules.limits.max_concurrent,
        "validation": rules.validation.value,
        "onto_baseline": rules.retries.onto_baseline,
        "revision": revision,
    }


class CallerForm(ServiceForm):
    name = forms.SlugField(
        label=_("Name"), max_length=60, help_text=_("Letters, digits, hyphen, underscore.")
    )
    description = forms.CharField(label=_("What it is"), max_length=300, required=False)
    contact = forms.CharField(
        label=_("Contact"), max_length=120, required=False, help_text=_("Whom to ask about it.")
    )


class CallerKeyForm(ServiceForm):
    expires_in_days = forms.IntegerField(
        label=_("Days until it ends"),
        min_value=1,
        max_value=LONGEST_LIFE.days,
        initial=DEFAULT_DAYS,
        required=False,
        help_text=_("Empty: it does not end."),
    )


class CertificateForm(ServiceForm):
    certificate_file = forms.CharField(
        label=_("Certificate chain"),
        max_length=300,
        required=False,
        help_text=_("A file on the machine of the gateway control, PEM. Empty: plain HTTP."),
    )
    key_file = forms.CharField(label=_("Private key"), max_length=300, required=False)
    reason = forms.CharField(label=_("Reason"), max_length=2000)


class TokenIssuerForm(ServiceForm):
    name = forms.SlugField(
        label=_("Name"), max_length=60, help_text=_("Letters, digits, hyphen, underscore.")
    )
    issuer = forms.CharField(
        label=_("Issuer"), max_length=300, help_text=_("What stands in the tokens’ iss.")
    )
    audiences = forms.CharField(
        label=_("Audiences"),
        max_length=2000,
        widget=forms.Textarea(attrs=_ONE_A_LINE),
        help_text=_("One a line: a token has to be made for one of them (aud)."),
    )
    caller_claim = forms.CharField(
        label=_("Claim that names the caller"), max_length=60, initial="sub"
    )
    jwks_url = forms.CharField(
        label=_("Address of the key set"),
        max_length=500,
        required=False,
        help_text=_("Fetched now, and each minute from then on; the last good keys stay."),
    )
    jwks = forms.CharField(
        label=_("Or the key set itself"),
        max_length=256 * 1024,
        required=False,
        widget=forms.Textarea(attrs={**_ONE_A_LINE, "rows": 6}),
        help_text=_("A JSON Web Key Set with public keys alone."),
    )

    def registration(self) -> dict[str, Any]:
        """What the service takes."""
        data = dict(self.cleaned_data)
        data["audiences"] = data["audiences"].split()
        return data


def _lists(data: dict[str, Any], which: str) -> dict[str, list[str]]:
    return {one: data[f"{which}_{one}"].split() for one in ("callers", "networks")}


def _rate(data: dict[str, Any], which: str) -> dict[str, Any] | None:
    requests, burst = data[f"{which}_requests"], data[f"{which}_burst"]
    if requests is None and burst is None:
        return None
    limit = {"per": data[f"{which}_per"]}
    limit |= {"requests": requests} if requests is not None else {}
    return limit | ({"burst": burst} if burst is not None else {})


def _rate_initial(which: str, limit: RateLimit | None) -> dict[str, Any]:
    if limit is None:
        return {}
    return {
        f"{which}_requests": limit.requests,
        f"{which}_per": period_words(limit.per_ms),
        f"{which}_burst": limit.burst,
    }
