"""Forms of the pages of nodes."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.forms import ServiceForm
from deployments.models import Node
from models_registry.models import Environment


class NodeForm(ServiceForm):
    """How a node is reached and where its numbers are read; its name stays once it is there."""

    name = forms.SlugField(label=gettext_lazy("Name"), max_length=40)
    grpc_address = forms.CharField(
        label="gRPC",
        max_length=120,
        help_text=gettext_lazy("host:port of Triton’s gRPC, by which models are loaded."),
    )
    http_address = forms.CharField(
        label="HTTP",
        max_length=120,
        help_text=gettext_lazy("host:port of Triton’s HTTP, which the gateways call."),
    )
    repository = forms.CharField(
        label=gettext_lazy("Model repository"),
        max_length=300,
        help_text=gettext_lazy("Its folder as the worker of this node sees it, from the root on."),
    )
    environments = forms.MultipleChoiceField(
        label=gettext_lazy("Environments"), widget=forms.CheckboxSelectMultiple
    )
    gpus = forms.CharField(
        label=gettext_lazy("GPUs"),
        required=False,
        max_length=80,
        help_text=gettext_lazy("Numbers of its GPUs with commas between; none for the CPU."),
    )
    metrics_address = forms.CharField(
        label=gettext_lazy("Triton’s metrics"),
        required=False,
        max_length=120,
        help_text=gettext_lazy("host:port of /metrics: queue and execution by percentiles."),
    )
    dcgm_address = forms.CharField(
        label=gettext_lazy("DCGM exporter"),
        required=False,
        max_length=120,
        help_text=gettext_lazy("host:port, usually 9400: all that is measured of GPUs."),
    )
    host_metrics_address = forms.CharField(
        label=gettext_lazy("Node exporter"),
        required=False,
        max_length=120,
        help_text=gettext_lazy("host:port, usually 9100: CPU, memory, disk, network."),
    )
    labels = forms.CharField(
        label=gettext_lazy("Labels"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        help_text=gettext_lazy("One line for each, as in zone=a."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        places = self.fields["environments"]
        if isinstance(places, forms.MultipleChoiceField):
            names = Environment.objects.order_by("name").values_list("name", flat=True)
            places.choices = [(name, name) for name in names]

    def clean_gpus(self) -> list[int]:
        """The GPUs as numbers."""
        words = self.cleaned_data["gpus"].replace(",", " ").split()
        if any(not word.isdecimal() or int(word) > 63 for word in words):
            raise forms.ValidationError(_("Use numbers from 0 to 63, as in 0, 1."))
        return sorted({int(word) for word in words})

    def clean_labels(self) -> dict[str, str]:
        """The labels as names and values."""
        labels = {}
        for line in filter(None, map(str.strip, self.cleaned_data["labels"].splitlines())):
            name, sign, value = line.partition("=")
            if not sign or not name.strip():
                raise forms.ValidationError(_("“%(line)s” is not: name=value.") % {"line": line})
            labels[name.strip()] = value.strip()
        return labels


def initial_of(node: Node) -> dict[str, Any]:
    """A node's registration as the form shows it."""
    return {
        "name": node.name,
        "grpc_address": node.grpc_address,
        "http_address": node.http_address,
        "repository": node.repository,
        "environments": [place.name for place in node.environments.all()],
        "gpus": ", ".join(map(str, node.gpus)),
        "metrics_address": node.metrics_address,
        "dcgm_address": node.dcgm_address,
        "host_metrics_address": node.host_metrics_address,
        "labels": "\n".join(f"{name}={value}" for name, value in node.labels.items()),
    }
