"""`/api/v1/retention/`: how long counts are kept."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.api.problems import problem
from deployments.api.preconditions import IF_MATCH, revision_named
from deployments.rules.statistics.retention import FIELDS
from deployments.selectors.statistics.retention import retention
from deployments.services.statistics.retention import set_retention


class _Days(serializers.Serializer[Any]):
    minutes_days = serializers.IntegerField(min_value=0, required=False)
    hours_days = serializers.IntegerField(min_value=0, required=False)
    days_days = serializers.IntegerField(min_value=0, required=False)
    series_minutes_days = serializers.IntegerField(min_value=0, required=False)
    series_hours_days = serializers.IntegerField(min_value=0, required=False)
    mirrors_days = serializers.IntegerField(min_value=0, required=False)
    comparisons_days = serializers.IntegerField(min_value=0, required=False)
    outcomes_days = serializers.IntegerField(min_value=0, required=False)
    gaps_days = serializers.IntegerField(min_value=0, required=False)


class RetentionRequestSerializer(_Days):
    """Days of each kind, 0 for ever; kinds that are left out stay as they are."""

    reason = serializers.CharField(required=False, allow_blank=True, max_length=500)


class RoomSerializer(serializers.Serializer[Any]):
    size_bytes = serializers.IntegerField()
    rows = serializers.IntegerField(help_text="About as many, as the database estimates.")


class RetentionSerializer(_Days):
    revision = serializers.IntegerField()
    updated_at = serializers.DateTimeField(allow_null=True)
    updated_by = serializers.CharField()
    last_run_at = serializers.DateTimeField(allow_null=True)
    last_run = serializers.DictField()
    room = serializers.DictField(child=RoomSerializer())


class RetentionView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"PUT": "statistics.manage"}

    @extend_schema(
        summary="Show how long counts are kept, and the room they take",
        responses=RetentionSerializer,
    )
    def get(self, request: Request) -> Response:
        return _answer()

    @extend_schema(
        summary="Say how long counts are kept",
        request=RetentionRequestSerializer,
        responses=RetentionSerializer,
        parameters=[IF_MATCH],
    )
    def put(self, request: Request) -> Response:
        # Not behind Idempotency-Key: the same policy again changes nothing.
        if "If-Match" not in request.headers:
            return problem(
                status_code=428,
                code="precondition_required",
                detail="The revision that this policy replaces is not named.",
                hint='Send If-Match with the ETag of the policy you looked at, as If-Match: "3".',
            )
        body = RetentionRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        set_retention(
            days={name: given[name] for name in FIELDS if name in given},
            expected_revision=revision_named(request),
            reason=given.get("reason", ""),
            actor=actor_of(request),
        )
        return _answer()


def _answer() -> Response:
    found = retention()
    body = {
        **found.days,
        "revision": found.row.revision,
        "updated_at": found.row.updated_at,
        "updated_by": found.changed_by,
        "last_run_at": found.row.last_run_at,
        "last_run": found.row.last_run,
        "room": {
            name: {"size_bytes": one.size_bytes, "rows": one.rows}
            for name, one in found.room.items()
        },
    }
    answer = Response(RetentionSerializer(body).data)
    answer["ETag"] = f'"{found.row.revision}"'
    return answer
