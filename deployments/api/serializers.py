"""What this storey's API reads and answers."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from deployments.models import Deployment, EndpointMode, Node, Placement
from models_registry.selectors.release_policies import broken_glass


class CordonRequestSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=2000)


class DeployRequestSerializer(serializers.Serializer[Any]):
    release = serializers.UUIDField()
    nodes = serializers.ListField(child=serializers.CharField(), required=False, allow_empty=False)


class RemoveRequestSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=2000)
    move_traffic = serializers.BooleanField(default=False)


class FaultSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    detail = serializers.CharField()


class PlacementSerializer(serializers.ModelSerializer[Placement]):
    node = serializers.CharField(source="node.name")
    job = serializers.UUIDField(source="job_id", allow_null=True)
    verification_faults = FaultSerializer(many=True, read_only=True)

    class Meta:
        model = Placement
        fields: ClassVar[list[str]] = [
            "node",
            "state",
            "detail",
            "job",
            "digests",
            "verified_at",
            "verification_faults",
            "folder_signed_by",
            "ready_at",
            "changed_at",
        ]


class DeploymentSerializer(serializers.ModelSerializer[Deployment]):
    release = serializers.UUIDField(source="release_id")
    model = serializers.CharField(source="release.version.model.name")
    version = serializers.IntegerField(source="release.version.number")
    environment = serializers.CharField(source="release.environment.name")
    triton_model = serializers.CharField(source="generation.triton_model")
    against_policy = serializers.SerializerMethodField(
        help_text="Whether its release went past the environment's policy by breaking the glass."
    )
    requested_by = serializers.CharField(source="requested_by.username")
    placements = PlacementSerializer(many=True)

    class Meta:
        model = Deployment
        fields: ClassVar[list[str]] = [
            "id",
            "release",
            "model",
            "version",
            "environment",
            "triton_model",
            "against_policy",
            "requested_by",
            "created_at",
            "removal_requested_at",
            "removed_at",
            "placements",
        ]

    def get_against_policy(self, deployment: Deployment) -> bool:
        return broken_glass(deployment.release) is not None


class HeaderRuleSerializer(serializers.Serializer[Any]):
    header = serializers.CharField(max_length=80)
    value = serializers.CharField(max_length=256)
    version = serializers.IntegerField(min_value=1)


class TesterSerializer(serializers.Serializer[Any]):
    """A caller, by the value of the sticky header, who always gets one version."""

    caller = serializers.CharField(max_length=256)
    version = serializers.IntegerField(min_value=1)


class MirrorSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField(min_value=1)
    percent = serializers.FloatField(min_value=0, max_value=100, default=100)


class SplitRequestSerializer(serializers.Serializer[Any]):
    """Weights in percent by version; what is left out of the rest stays as it is."""

    weights = serializers.DictField(child=serializers.JSONField(), allow_empty=False)
    reason = serializers.CharField(max_length=2000)
    sticky_header = serializers.CharField(max_length=80, required=False)
    header_rules = HeaderRuleSerializer(many=True, required=False)
    testers = TesterSerializer(many=True, required=False)
    mirror = MirrorSerializer(required=False)


class AcknowledgementSerializer(serializers.Serializer[Any]):
    gateway = serializers.CharField()
    outcome = serializers.ChoiceField(["applied", "refused", "pending", "absent"])
    took_ms = serializers.FloatField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)


class SplitSerializer(serializers.Serializer[Any]):
    """A revision; 0 means that nothing has had any traffic yet.

    `moved` is the percentage of sticky callers who got another version by it.
    """

    revision = serializers.IntegerField()
    mode = serializers.ChoiceField(EndpointMode.choices)
    weights = serializers.DictField(child=serializers.FloatField())
    state = serializers.CharField(allow_blank=True)
    cause = serializers.CharField(allow_blank=True)
    author = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField(allow_null=True)
    applied_at = serializers.DateTimeField(allow_null=True)
    sticky_header = serializers.CharField()
    header_rules = HeaderRuleSerializer(many=True)
    testers = TesterSerializer(many=True)
    moved = serializers.FloatField()
    mirror = MirrorSerializer(allow_null=True)
    job = serializers.UUIDField(allow_null=True)
    acknowledgements = AcknowledgementSerializer(many=True)


class RollbackRequestSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=2000)
    to = serializers.IntegerField(min_value=1, required=False, allow_null=True)


class ModeRequestSerializer(serializers.Serializer[Any]):
    # Not a choice field: the service's answer names the modes in words.
    mode = serializers.CharField(max_length=20)
    reason = serializers.CharField(max_length=2000)


class NumbersSerializer(serializers.Serializer[Any]):
    requests_per_second = serializers.FloatField()
    errors_per_second = serializers.FloatField(allow_null=True)
    provider_share = serializers.FloatField(allow_null=True)
    caller_share = serializers.FloatField(allow_null=True)
    p50_ms = serializers.FloatField(allow_null=True)
    p95_ms = serializers.FloatField(allow_null=True)
    p99_ms = serializers.FloatField(allow_null=True)
    queue_ms = serializers.FloatField(allow_null=True)
    compute_ms = serializers.FloatField(allow_null=True)
    batch_size = serializers.FloatField(allow_null=True)


class LiveSerializer(NumbersSerializer):
    at = serializers.DateTimeField()
    versions = serializers.DictField(child=NumbersSerializer())


class SplitSummarySerializer(serializers.Serializer[Any]):
    revision = serializers.IntegerField()
    weights = serializers.DictField(child=serializers.FloatField())
    state = serializers.CharField(allow_blank=True)


class EndpointStateSerializer(serializers.Serializer[Any]):
    """`promise` is kept, at_risk, broken or no_data; `budget_left` is a share of 1."""

    environment = serializers.CharField()
    model = serializers.CharField()
    mode = serializers.CharField()
    ready_versions = serializers.ListField(child=serializers.IntegerField())
    live = LiveSerializer(allow_null=True)
    limit_ms = serializers.FloatField(allow_null=True)
    promise = serializers.CharField()
    budget_left = serializers.FloatField(allow_null=True)


class EndpointSerializer(EndpointStateSerializer):
    """An endpoint in a list."""

    split = SplitSummarySerializer()


class VersionLineSerializer(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    percent = serializers.FloatField()
    ready = serializers.BooleanField()
    why_not = serializers.CharField(allow_blank=True)
    nodes = serializers.ListField(child=serializers.CharField())
    state = serializers.CharField(allow_blank=True)
    deployment = serializers.CharField(source="deployment_id", allow_blank=True)
    release = serializers.CharField(source="release_id", allow_blank=True)


class EndpointDetailSerializer(EndpointStateSerializer):
    """One endpoint in full."""

    split = SplitSerializer()
    versions = VersionLineSerializer(many=True)
    rollback_target = serializers.IntegerField(allow_null=True)
    rollback_why_not = serializers.CharField(allow_blank=True)
    urls = serializers.ListField(child=serializers.CharField())


class NodeRequestSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=40)
    http_address = serializers.CharField(max_length=120)
    grpc_address = serializers.CharField(max_length=120)
    metrics_address = serializers.CharField(max_length=120, default="", allow_blank=True)
    dcgm_address = serializers.CharField(max_length=120, default="", allow_blank=True)
    host_metrics_address = serializers.CharField(max_length=120, default="", allow_blank=True)
    repository = serializers.CharField(max_length=300)
    environments = serializers.ListField(child=serializers.CharField(), allow_empty=False)
    gpus = serializers.ListField(child=serializers.IntegerField(min_value=0), default=list)
    labels = serializers.DictField(child=serializers.CharField(), default=dict)


class NodeSerializer(serializers.ModelSerializer[Node]):
    environments: serializers.SlugRelatedField[Any] = serializers.SlugRelatedField(
        slug_field="name", many=True, read_only=True
    )

    class Meta:
        model = Node
        fields: ClassVar[list[str]] = [
            "name",
            "state",
            "cordon_reason",
            "environments",
            "http_address",
            "grpc_address",
            "metrics_address",
            "dcgm_address",
            "host_metrics_address",
            "repository",
            "gpus",
            "labels",
            "triton_version",
            "last_seen_at",
            "created_at",
        ]


class LoadedSerializer(serializers.Serializer[Any]):
    triton_model = serializers.CharField()
    version = serializers.IntegerField()
    wanted = serializers.ListField(child=serializers.CharField())
    state = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)
    drift = serializers.ChoiceField(["", "missing", "extra"])


class NodeDetailSerializer(NodeSerializer):
    loaded = LoadedSerializer(many=True)

    class Meta(NodeSerializer.Meta):
        fields: ClassVar[list[str]] = [*NodeSerializer.Meta.fields, "loaded"]


class ReconcileRequestSerializer(serializers.Serializer[Any]):
    remove_extra = serializers.BooleanField(default=True)
