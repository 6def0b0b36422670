"""A model's versions: from a source artifact to ONNX and a rendered configuration."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import Job, User
from models_registry.models.artifacts import Artifact
from models_registry.models.catalog import OfModelQuerySet, RegisteredModel


class VersionState(models.TextChoices):
    DRAFT = "draft", _("Draft")
    UPLOADED = "uploaded", _("Uploaded")
    EXPORTING = "exporting", _("Exporting")
    VALIDATING = "validating", _("Validating")
    VALIDATED = "validated", _("Validated")
    REJECTED = "rejected", _("Rejected")
    ARCHIVED = "archived", _("Archived")


class ModelClass(models.TextChoices):
    TABULAR = "tabular", _("Tabular")
    CNN = "cnn", _("Simple CNN")
    TRANSFORMER = "transformer", _("Transformer")
    MULTIMODAL = "multimodal", _("Multimodal")


class Optimisation(models.TextChoices):
    """How a version was derived from another one's ONNX file."""

    SIMPLIFY = "simplify", _("Simplified graph")
    GRAPH = "graph", _("ONNX Runtime graph optimisation")
    FP16 = "fp16", _("Half precision (FP16)")
    INT8 = "int8", _("Dynamic INT8 quantisation")


class ModelVersionQuerySet(OfModelQuerySet["ModelVersion"]):
    model_path = "model__"


class ModelVersion(models.Model):
    """Version `number` of a model; immutable once validated.

    `inputs` and `outputs` are the declared signature: lists of {name, dtype, shape, dims}.
    `facts` is what the export found out about the graph; `tuning` what a person set by hand;
    `config_origins` says where each value of config.pbtxt came from. `report` is the validation
    report as data (its bytes are the artifact `report_artifact`). `target` is the Triton release
    that the ONNX file has to load on. `onnx_data` holds the weights of a model above 2 GB beside
    `onnx`; `replay` the worst inputs that validation met. A version with an `optimisation` was
    made from the ONNX file of `derived_from` and is measured against the source of that one.
    """

    model = models.ForeignKey(RegisteredModel, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    state = models.CharField(
        max_length=12, choices=VersionState.choices, default=VersionState.UPLOADED
    )
    source_format = models.CharField(max_length=40)
    filename = models.CharField(max_length=255)
    model_class = models.CharField(
        max_length=16, choices=ModelClass.choices, default=ModelClass.TABULAR
    )
    opset = models.PositiveSmallIntegerField(default=17)
    target = models.CharField(max_length=8, default="24.10")
    derived_from = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    optimisation = models.CharField(max_length=12, choices=Optimisation.choices, blank=True)
    inputs = models.JSONField(default=list)
    outputs = models.JSONField(default=list)
    module_entry = models.CharField(max_length=200, blank=True)
    module_arguments = models.JSONField(default=dict)
    tuning = models.JSONField(default=dict)
    notes = models.TextField(blank=True)

    source = models.ForeignKey(Artifact, on_delete=models.PROTECT, related_name="+")
    code = models.ForeignKey(
        Artifact, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    sample = models.ForeignKey(
        Artifact, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    onnx = models.ForeignKey(
        Artifact, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    onnx_data = models.ForeignKey(
        Artifact, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    replay = models.ForeignKey(
        Artifact, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    config = models.ForeignKey(
        Artifact, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    report_artifact = models.ForeignKey(
        Artifact, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    facts = models.JSONField(default=dict)
    report = models.JSONField(null=True, blank=True)
    config_origins = models.JSONField(default=dict)
    rejection = models.TextField(blank=True)

    export_job = models.ForeignKey(
        Job, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    validate_job = models.ForeignKey(
        Job, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    validated_at = models.DateTimeField(null=True, blank=True)

    objects = ModelVersionQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-number"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["model", "number"], name="version_number_once"),
            models.CheckConstraint(
                condition=~models.Q(state="validated")
                | (
                    models.Q(onnx__isnull=False)
                    & models.Q(config__isnull=False)
                    & models.Q(report_artifact__isnull=False)
                ),
                name="validated_version_is_complete",
            ),
            models.CheckConstraint(
                condition=models.Q(optimisation="", derived_from__isnull=True)
                | (~models.Q(optimisation="") & models.Q(derived_from__isnull=False)),
                name="an_optimised_version_has_an_origin",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["model", "-number"], name="version_recent")
        ]

    def __str__(self) -> str:
        return f"{self.model.name} v{self.number}"


class VersionFileQuerySet(OfModelQuerySet["VersionFile"]):
    model_path = "version__model__"


class VersionFile(models.Model):
    """A further file of a version's source, by the name that the main file calls it."""

    version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="files")
    name = models.CharField(max_length=255)
    artifact = models.ForeignKey(Artifact, on_delete=models.PROTECT, related_name="+")

    objects = VersionFileQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["version", "name"], name="file_name_once_per_version")
        ]

    def __str__(self) -> str:
        return self.name
