"""`/api/v1/alert-rules/` and `/api/v1/alert-signals/`"""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from console.api.problems import problem
from deployments.api.alert_serializers import (
    AlertRulePreviewRequestSerializer,
    AlertRulePreviewSerializer,
    AlertRuleRequestSerializer,
    AlertRuleRestoreSerializer,
    AlertRuleSerializer,
    AlertSignalSerializer,
    preview_json,
)
from deployments.api.preconditions import IF_MATCH, revision_named
from deployments.models import AlertRule
from deployments.rules.alerts.catalogue import SIGNALS, signal_of
from deployments.rules.alerts.documents import parse_rule
from deployments.selectors.alerts.preview import preview
from deployments.selectors.alerts.rules import find_rule, rule_list, series_names
from deployments.services.alerts.rules import remove_rule, require_rule, restore_rule, set_rule
from deployments.services.alerts.scopes import scope_of


@extend_schema(summary="List alert rules")
class AlertRuleListView(ListAPIView[AlertRule]):
    serializer_class = AlertRuleSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("name", "pk")
    queryset = AlertRule.objects.none()

    def list(self, request: Request, *args: object, **kwargs: object) -> Response:
        page = self.paginate_queryset(rule_list(user=user_of(request)))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class AlertRuleView(APIView):
    required_actions: ClassVar[dict[str, str]] = {
        "PUT": "alert_rule.change",
        "DELETE": "alert_rule.change",
    }

    @extend_schema(summary="Show an alert rule", responses=AlertRuleSerializer)
    def get(self, request: Request, rule: str) -> Response:
        return _answer(find_rule(rule, user=user_of(request)))

    @extend_schema(
        summary="Decide an alert rule anew, or make it",
        request=AlertRuleRequestSerializer,
        responses=AlertRuleSerializer,
        parameters=[IF_MATCH],
    )
    def put(self, request: Request, rule: str) -> Response:
        # Not behind Idempotency-Key: the same rule again changes nothing.
        require_rule(rule, actor_of(request))
        if "If-Match" not in request.headers:
            return problem(
                status_code=428,
                code="precondition_required",
                detail="The revision that this rule replaces is not named.",
                hint='Send If-Match with the ETag of what you looked at, or "*" for a new one.',
            )
        body = AlertRuleRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        set_rule(
            name=rule,
            expected_revision=revision_named(request),
            actor=actor_of(request),
            **body.validated_data,
        )
        return _answer(find_rule(rule, user=user_of(request)))

    @extend_schema(
        summary="Remove an alert rule that did not come with the product",
        responses={204: OpenApiResponse(description="Removed.")},
    )
    def delete(self, request: Request, rule: str) -> Response:
        remove_rule(name=rule, actor=actor_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class AlertRuleRestoreView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "alert_rule.change"}

    @extend_schema(
        summary="Put a built-in alert rule back to what the product came with",
        request=AlertRuleRestoreSerializer,
        responses=AlertRuleSerializer,
    )
    @idempotent
    def post(self, request: Request, rule: str) -> Response:
        body = AlertRuleRestoreSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        restore_rule(name=rule, actor=actor_of(request), **body.validated_data)
        return _answer(find_rule(rule, user=user_of(request)))


class AlertRulePreviewView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "read"}

    @extend_schema(
        summary="What a rule would have raised in the last 24 hours",
        request=AlertRulePreviewRequestSerializer,
        responses=AlertRulePreviewSerializer,
    )
    def post(self, request: Request) -> Response:
        body = AlertRulePreviewRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        given: dict[str, Any] = body.validated_data
        document = parse_rule(given.pop("document"))
        scope = scope_of(**given, actor=actor_of(request))
        about = AlertRule(environment=scope.environment, model=scope.model, node=scope.node)
        found = preview(document, about, user=user_of(request), now=timezone.now())
        return Response(AlertRulePreviewSerializer(preview_json(found)).data)


class AlertSignalListView(APIView):
    @extend_schema(
        summary="What an alert rule can watch", responses=AlertSignalSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        names = series_names(user=user_of(request))
        every = [*SIGNALS.values(), *(signal_of(name) for name in names)]
        rows = [
            {"name": one.key, "source": one.source.value, "unit": one.unit}
            for one in every
            if one is not None
        ]
        return Response(AlertSignalSerializer(rows, many=True).data)


def _answer(row: AlertRule) -> Response:
    return Response(AlertRuleSerializer(row).data, headers={"ETag": f'"{row.revision}"'})
