"""The registry's forms: what is typed, put into the shape that the services take."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.errors import CovenantError
from console.forms import ServiceForm
from console.models import Team, User
from models_registry.exporting.protocol import DEFAULT_OPSET
from models_registry.models import (
    ModelClass,
    RegisteredModel,
    ReleaseState,
    RiskClass,
    SeatHolder,
    VersionState,
    Visibility,
)
from models_registry.rules import opsets
from models_registry.selectors.duties import fit_for
from models_registry.services.version_requests import default_target

TUNING = (
    "max_batch_size",
    "preferred_batch_sizes",
    "queue_delay_us",
    "instance_count",
    "max_queue_size",
    "default_timeout_us",
)
FORMATS: tuple[tuple[str, str | Promise], ...] = (
    ("", _("Detect it from the content")),
    ("torchscript", "TorchScript"),
    ("torch_export", _("torch.export program")),
    ("torch_state_dict", _("State dict with its module’s source")),
    ("onnx", "ONNX"),
    ("onnx_archive", _("ONNX archive (zip)")),
    ("safetensors", _("Safetensors with their module’s source")),
    ("keras", "Keras"),
    ("sklearn", "scikit-learn"),
    ("skops", _("scikit-learn (skops)")),
    ("xgboost", "XGBoost"),
    ("lightgbm", "LightGBM"),
    ("catboost", "CatBoost"),
)


def _releases() -> list[tuple[str, str]]:
    """Triton releases, newest first, each with what it loads."""
    return [
        (
            release,
            gettext("%(release)s (opset %(low)s to %(high)s)")
            % {
                "release": gettext("embedded") if release == opsets.EMBEDDED else release,
                "low": opsets.MIN_OPSET,
                "high": runtime.opset,
            },
        )
        for release, runtime in reversed(opsets.TRITON.items())
    ]


class RegistryForm(ServiceForm):
    """A form whose fields show the whole sentence of a refusal that concerns one of them."""

    def add_refusal(self, error: CovenantError) -> None:
        """See ServiceForm; a single fault says what happened and what to do, not only where."""
        names = [fault.pointer.strip("/").split("/")[0] for fault in error.errors]
        if len(names) == 1 and names[0] in self.fields:
            self.add_error(names[0], f"{error.message} {error.hint}".strip())
            return
        super().add_refusal(error)


class ModelFilterForm(forms.Form):
    """Filters of the model list; whatever is not understood filters nothing."""

    q = forms.CharField(required=False, max_length=100)
    state = forms.ChoiceField(
        required=False, choices=[("", _("Any newest version")), *VersionState.choices]
    )
    risk_class = forms.ChoiceField(
        required=False, choices=[("", _("Any risk class")), *RiskClass.choices]
    )
    tag = forms.CharField(required=False, max_length=40)
    owner = forms.CharField(required=False, max_length=64)
    mine = forms.BooleanField(required=False)


class ReleaseFilterForm(forms.Form):
    """Filters of the release list; whatever is not understood filters nothing."""

    state = forms.ChoiceField(required=False, choices=[("", _("Any state")), *ReleaseState.choices])
    environment = forms.CharField(required=False, max_length=40)
    broken_glass = forms.ChoiceField(
        required=False,
        choices=[
            ("", _("By policy or against it")),
            ("yes", _("Against the policy")),
            ("open", _("Against it, not reviewed")),
            ("no", _("By policy")),
        ],
    )
    q = forms.CharField(required=False, max_length=63)


class TagsField(forms.CharField):
    """Tags as people type them: separated by commas."""

    def clean(self, value: Any) -> list[str]:
        text = super().clean(value)
        return [part.strip() for part in text.split(",") if part.strip()]

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value


class ModelChangeForm(RegistryForm):
    description = forms.CharField(
        label=_("Description"),
        max_length=4000,
        required=False,
        help_text=_("What it decides, and for whom."),
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    risk_class = forms.ChoiceField(
        label=_("Risk class"), choices=RiskClass.choices, initial=RiskClass.MEDIUM
    )
    tags = TagsField(
        label=_("Tags"),
        required=False,
        max_length=400,
        help_text=_("Separated by commas, as in “payments, realtime”."),
    )
    team = forms.ModelChoiceField(
        label=_("Team"),
        queryset=Team.objects.order_by("name"),
        required=False,
        empty_label=_("None"),
        to_field_name="slug",
        help_text=_("Its members may work on the model as its owner does."),
    )
    visibility = forms.ChoiceField(
        label=_("Who may see it"),
        choices=Visibility.choices,
        initial=Visibility.EVERYBODY,
        required=False,
        help_text=_("For everybody else it does not exist, nor does anything that hangs on it."),
    )

    def clean(self) -> dict[str, Any]:
        """A visibility that was not sent stays as it is: silence must not widen it."""
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if not given.get("visibility"):
            given.pop("visibility", None)
        return given


class ModelForm(ModelChangeForm):
    name = forms.CharField(
        label=_("Name"),
        max_length=63,
        help_text=_(
            "Lower case, digits and underscores, as in fraud_detector. Callers use it; it stays."
        ),
        widget=forms.TextInput(
            attrs={"autocapitalize": "none", "spellcheck": "false", "autofocus": True}
        ),
    )
    field_order = ("name", "description", "risk_class", "tags", "team", "visibility")


class SeatForm(RegistryForm):
    """Who shall sit in a seat: who has its role, globally or in the team, and no other seat."""

    user = forms.ModelChoiceField(
        label=_("Person"),
        queryset=User.objects.none(),
        to_field_name="username",
        empty_label=_("Choose a person"),
    )

    def __init__(self, *args: Any, model: RegisteredModel, seat: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["user"]
        if isinstance(field, forms.ModelChoiceField):
            others = SeatHolder.objects.filter(model=model).exclude(seat=seat)
            field.queryset = fit_for(seat, model.team_id).exclude(pk__in=others.values("user"))


class AliasForm(RegistryForm):
    name = forms.CharField(
        label=_("Alias"),
        max_length=40,
        help_text=_("Such as champion or challenger."),
        widget=forms.TextInput(attrs={"list": "alias-names", "autocapitalize": "none"}),
    )
    number = forms.IntegerField(
        label=_("Version"), min_value=1, help_text=_("The number of a validated version.")
    )


class JsonObjectField(forms.CharField):
    """A JSON object in a line or a few; empty means {}."""

    def clean(self, value: Any) -> dict[str, Any]:
        text = super().clean(value)
        if not text.strip():
            return {}
        try:
            found = json.loads(text)
        except ValueError as error:
            raise forms.ValidationError(
                gettext("This is not JSON: %(error)s.") % {"error": error}
            ) from error
        if not isinstance(found, dict):
            raise forms.ValidationError(gettext('Give an object, as in {"classes": 10}.'))
        return found


class BatchSizesField(forms.CharField):
    """Whole numbers separated by commas; empty means that the rule decides."""

    def clean(self, value: Any) -> list[int] | None:
        text = super().clean(value)
        try:
            return [int(part) for part in text.split(",") if part.strip()] or None
        except ValueError as error:
            raise forms.ValidationError(gettext("Give whole numbers, as in 4, 8.")) from error


class UploadsField(forms.Field):
    """The ids of any number of uploads, one hidden input for each; empty ones are left out."""

    widget = forms.MultipleHiddenInput

    def clean(self, value: Any) -> list[uuid.UUID]:
        try:
            return [uuid.UUID(one) for one in value or () if one]
        except ValueError as error:
            raise forms.ValidationError(gettext("Upload the files again.")) from error


class VersionForm(RegistryForm):
    upload = forms.UUIDField(
        error_messages={
            "required": _("Upload the model’s file first; the upload has to be complete."),
            "invalid": _("Upload the file again."),
        }
    )
    data_uploads = UploadsField(label=_("Weights beside the file"), required=False)
    source_format = forms.ChoiceField(label=_("Format"), choices=FORMATS, required=False)
    code_upload = forms.UUIDField(label=_("Source of the module"), required=False)
    module_entry = forms.CharField(
        label=_("Class of the module"),
        max_length=200,
        required=False,
        help_text=_("File and class, as in net.py:FraudNet."),
        widget=forms.TextInput(attrs={"spellcheck": "false", "class": "mono"}),
    )
    module_arguments = JsonObjectField(
        label=_("Arguments of its constructor"),
        max_length=20_000,
        required=False,
        help_text=_('A JSON object, as in {"classes": 10}.'),
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "class": "mono"}),
    )
    model_class = forms.ChoiceField(
        label=_("Kind of model"),
        choices=ModelClass.choices,
        initial=ModelClass.TABULAR,
        help_text=_("Decides the largest batch: 32 for tabular and simple CNN, 8, or 1."),
    )
    opset = forms.IntegerField(
        label=_("ONNX opset"),
        min_value=7,
        max_value=30,
        initial=DEFAULT_OPSET,
        help_text=_("17 runs on every Triton release of the list."),
    )
    target = forms.ChoiceField(
        label=_("Triton release"),
        choices=_releases,
        initial=default_target,
        required=False,
        help_text=_("The release of the nodes that have to load it."),
    )
    sample = forms.UUIDField(label=_("Sample"), required=False)
    notes = forms.CharField(
        label=_("Notes"),
        max_length=4000,
        required=False,
        help_text=_("What is different about this version."),
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    max_batch_size = forms.IntegerField(label=_("Largest batch"), required=False, min_value=0)
    preferred_batch_sizes = BatchSizesField(
        label=_("Preferred batch sizes"), required=False, max_length=100
    )
    queue_delay_us = forms.IntegerField(
        label=_("Longest wait for a batch, µs"), required=False, min_value=0
    )
    instance_count = forms.IntegerField(label=_("Copies on a node"), required=False, min_value=1)
    max_queue_size = forms.IntegerField(
        label=_("Longest queue, requests"), required=False, min_value=0
    )
    default_timeout_us = forms.IntegerField(
        label=_("Queue time-out, µs"), required=False, min_value=0
    )

    def add_refusal(self, error: CovenantError) -> None:
        """Faults of the tensors are shown in their rows (see `tensor_rows`), the rest here."""
        heads = {fault.pointer.strip("/").split("/")[0] for fault in error.errors}
        tails = [fault.pointer.strip("/").split("/")[-1] for fault in error.errors]
        if heads == {"tuning"} and all(tail in self.fields for tail in tails):
            for tail, fault in zip(tails, error.errors, strict=True):
                self.add_error(tail, fault.detail)
        elif not heads or heads - {"inputs", "outputs"}:
            super().add_refusal(error)

    def tuning(self) -> dict[str, Any]:
        """What was set by hand; the rest is the rule's business."""
        found = {name: self.cleaned_data.get(name) for name in TUNING}
        return {name: value for name, value in found.items() if value is not None}

    def tuning_fields(self) -> Iterable[forms.BoundField]:
        """The fields of the section that most people leave alone."""
        return [self[name] for name in TUNING]
