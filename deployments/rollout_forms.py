"""The form of a new rollout: what is typed, checked for shape; the plan is the rules' business."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from console.errors import CovenantError
from console.forms import ServiceForm
from deployments.rules.rollouts.drafts import Approval, Draft
from deployments.rules.rollouts.reading import duration_s, duration_word
from deployments.rules.rollouts.types import DAYS

DAY_WORDS = dict(
    zip(
        DAYS,
        (
            _("Monday"),
            _("Tuesday"),
            _("Wednesday"),
            _("Thursday"),
            _("Friday"),
            _("Saturday"),
            _("Sunday"),
        ),
        strict=True,
    )
)
# Parts of a fault's pointer → the field of the form that it comes from.
POINTERS = (
    ("set_weight", "start"),
    ("duration", "every"),
    ("pause", "every"),
    ("max_output_faults", "fast_max_output_faults"),
    ("fast_check/max_error_rate", "fast_max_error_rate"),
    ("fast_check/max_p99_ms", "fast_max_p99_ms"),
    ("interval", "interval"),
    ("min_requests", "min_requests"),
    ("failure_limit", "failure_limit"),
    ("time_zone", "time_zone"),
    ("windows", "days"),
    ("version", "version"),
    ("baseline", "baseline"),
    ("reason", "reason"),
)
# Refusals that are about one field.
CODES = {
    "not_ready": "version",
    "already_serving": "version",
    "no_baseline": "baseline",
    "reason_missing": "reason",
}


class DurationField(forms.CharField):
    """A length of time as `15m` or `1h`; its value is in seconds."""

    def __init__(self, *, low: float, high: float, **kwargs: Any) -> None:
        super().__init__(max_length=12, **kwargs)
        self.low, self.high = low, high

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        try:
            seconds = duration_s(text.replace(" ", ""))
        except ValueError as error:
            raise forms.ValidationError(_("Write it as 90s, 15m or 1h.")) from error
        if not self.low <= seconds <= self.high:
            raise forms.ValidationError(
                _("Between %(low)s and %(high)s.")
                % {"low": duration_word(self.low), "high": duration_word(self.high)}
            )
        return seconds

    def prepare_value(self, value: Any) -> Any:
        return duration_word(value) if isinstance(value, float) else value


def _limit(label: Any, high: float, *, step: str = "any", help_text: Any = "") -> forms.FloatField:
    """A limit that may be left out."""
    return forms.FloatField(
        label=label,
        required=False,
        min_value=0,
        max_value=high,
        help_text=help_text,
        widget=forms.NumberInput(attrs={"step": step, "inputmode": "decimal"}),
    )


class RolloutForm(ServiceForm):
    """`versions` are those that are ready here; what a person leaves as it is the contract says."""

    APPROVALS: ClassVar[list[tuple[str, Any]]] = [
        (Approval.NEVER, _("Never: it goes on by itself")),
        (Approval.FIRST, _("After the first step")),
        (Approval.LAST, _("Before it gets everything")),
        (Approval.EACH, _("After every step")),
    ]

    version = forms.TypedChoiceField(label=_("New version"), coerce=int)
    baseline = forms.TypedChoiceField(
        label=_("Baseline"),
        coerce=int,
        help_text=_("What it is compared with, and who gets the traffic back."),
    )
    start = forms.FloatField(label=_("First share"), min_value=0.01, max_value=100)
    step = forms.FloatField(label=_("Each step adds"), min_value=0.01, max_value=100)
    every = DurationField(label=_("A step every"), low=1.0, high=30 * 86400.0)
    approval = forms.ChoiceField(label=_("Wait for a person"), choices=APPROVALS)

    max_error_rate = _limit(_("Error rate at most"), 100)
    max_p99_ms = _limit(_("P99 at most"), 600_000)
    max_p99_ratio = _limit(
        _("P99 at most, as a multiple of the baseline’s"),
        1000,
        help_text=_("1.2: a fifth slower than the baseline over the same minutes."),
    )
    max_output_difference = _limit(
        _("Answers unlike the baseline’s at most"),
        100,
        help_text=_("Share of sampled answers that differ beyond the tolerance."),
    )
    min_requests = forms.IntegerField(
        label=_("Requests needed to judge"),
        min_value=1,
        max_value=1_000_000_000,
        help_text=_("Fewer are inconclusive, never a success."),
    )
    interval = DurationField(label=_("Measure every"), low=1.0, high=86400.0)
    failure_limit = forms.IntegerField(
        label=_("Failed measurements allowed"),
        min_value=0,
        max_value=1000,
        help_text=_("0: the first one rolls back."),
    )

    fast = forms.BooleanField(
        label=_("Roll back within seconds when it is plainly bad"), required=False
    )
    fast_max_error_rate = _limit(_("Error rate at most"), 100)
    fast_max_p99_ms = _limit(_("P99 at most"), 600_000)
    fast_max_output_faults = _limit(_("Answers that break the contract at most"), 100)

    days = forms.MultipleChoiceField(
        label=_("Only on"),
        choices=list(DAY_WORDS.items()),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("None: a step may begin at any time."),
    )
    opens = forms.RegexField(r"^([01][0-9]|2[0-3]):[0-5][0-9]$", label=_("From"), required=False)
    closes = forms.RegexField(r"^([01][0-9]|2[0-3]):[0-5][0-9]$", label=_("To"), required=False)
    time_zone = forms.CharField(label=_("Time zone"), max_length=60, required=False)

    document = forms.CharField(
        label=_("Plan as YAML"),
        required=False,
        max_length=100_000,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false", "class": "mono"}),
        help_text=_(
            "In place of everything above: steps with analyses of their own, queries to "
            "Prometheus, dry runs."
        ),
    )
    reason = forms.CharField(
        label=_("Reason"),
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("Kept in the audit trail with your name."),
    )

    def __init__(self, *args: Any, versions: list[int], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("version", "baseline"):
            field = self.fields[name]
            if isinstance(field, forms.TypedChoiceField):
                field.choices = [(number, f"v{number}") for number in versions]

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        version = given.get("version")
        if version is not None and version == given.get("baseline"):
            self.add_error("baseline", _now("Another version than the new one."))
        return given

    def draft(self) -> Draft:
        """What was typed, of a valid form."""
        given = self.cleaned_data
        return Draft(
            start=given["start"],
            step=given["step"],
            every_s=given["every"],
            approval=Approval(given["approval"]),
            max_error_rate=given["max_error_rate"],
            max_p99_ms=given["max_p99_ms"],
            max_p99_ratio=given["max_p99_ratio"],
            max_output_difference=given["max_output_difference"],
            min_requests=given["min_requests"],
            interval_s=given["interval"],
            failure_limit=given["failure_limit"],
            fast=given["fast"],
            fast_max_error_rate=given["fast_max_error_rate"],
            fast_max_p99_ms=given["fast_max_p99_ms"],
            fast_max_output_faults=given["fast_max_output_faults"],
            days=tuple(given["days"]),
            opens=given["opens"] or "00:00",
            closes=given["closes"] or "00:00",
            time_zone=given["time_zone"] or "UTC",
        )

    def add_refusal(self, error: CovenantError) -> None:
        """At the fields that the faults come from; all of them at the document, where one is."""
        if not error.errors:
            name = CODES.get(error.code)
            self.add_error(name, f"{error.message} {error.hint}".strip())
            return
        for fault in error.errors:
            where = self._field_of(fault.pointer)
            text = fault.detail if where != "document" else f"{fault.pointer} {fault.detail}"
            self.add_error(where, text)

    def _field_of(self, pointer: str) -> str | None:
        name = next((field for part, field in POINTERS if part in pointer), None)
        if self.cleaned_data.get("document", "").strip() and name not in (
            "version",
            "baseline",
            "reason",
        ):
            return "document"
        return name


def initial_of(draft: Draft, *, version: int | None, baseline: int | None) -> dict[str, Any]:
    """What the form starts with."""
    return {
        "version": version,
        "baseline": baseline,
        "start": _tidy(draft.start),
        "step": _tidy(draft.step),
        "every": draft.every_s,
        "approval": draft.approval,
        "max_error_rate": _tidy(draft.max_error_rate),
        "max_p99_ms": _tidy(draft.max_p99_ms),
        "min_requests": draft.min_requests,
        "interval": draft.interval_s,
        "failure_limit": draft.failure_limit,
        "fast": draft.fast,
        "fast_max_error_rate": _tidy(draft.fast_max_error_rate),
        "fast_max_p99_ms": _tidy(draft.fast_max_p99_ms),
        "fast_max_output_faults": _tidy(draft.fast_max_output_faults),
        "opens": draft.opens,
        "closes": draft.closes,
        "time_zone": draft.time_zone,
    }


def _tidy(value: float | None) -> float | None:
    """5.0 is written as 5."""
    return int(value) if value is not None and value == int(value) else value
