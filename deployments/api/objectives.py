"""`/api/v1/endpoints/…/objectives/`, `/api/v1/maintenance-windows/` and `/api/v1/exclusions/`."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from deployments.models import AgreementState, Exclusion, MaintenanceWindow
from deployments.rules.objectives.slo import Promise
from deployments.selectors.objectives.exclusion_effects import exclusion_effects
from deployments.selectors.objectives.pages import (
    exclusion_list,
    find_exclusion,
    find_maintenance,
    maintenance_list,
    standings,
)
from deployments.selectors.traffic.endpoints import find_endpoint
from deployments.services.objectives.exclusions import (
    agree_to_exclusion,
    propose_exclusion,
    withdraw_exclusion,
)
from deployments.services.objectives.maintenance import (
    agree_to_maintenance,
    propose_maintenance,
    withdraw_maintenance,
)

FILTERS = [
    OpenApiParameter("environment", str),
    OpenApiParameter("model", str),
    OpenApiParameter("state", str, enum=list(AgreementState.values)),
]

SET_ASIDE = (
    "id",
    "environment",
    "model",
    "starts_at",
    "ends_at",
    "reason",
    "state",
    "proposed_by",
    "proposed_at",
    "agreed_at",
    "agreements",
    "withdrawn_by",
    "withdrawn_at",
    "withdrawn_because",
)


class BurnSerializer(serializers.Serializer[Any]):
    """One burn-rate alert; rates are times the even pace, null without valid requests."""

    severity = serializers.CharField(help_text="P1, P2 or P3.")
    long_s = serializers.IntegerField()
    short_s = serializers.IntegerField()
    factor = serializers.FloatField(help_text="It fires while both rates are above this.")
    long_rate = serializers.FloatField(allow_null=True)
    short_rate = serializers.FloatField(allow_null=True)
    valid = serializers.IntegerField(help_text="Valid requests of the long window.")
    bad = serializers.FloatField(help_text="Bad requests of the long window.")
    firing = serializers.BooleanField()
    too_few = serializers.BooleanField(help_text="Fast, but on too few bad requests to tell.")


class MinutesSerializer(serializers.Serializer[Any]):
    """The budget in minutes: those whose own requests missed the target are bad."""

    window = serializers.IntegerField(help_text="Minutes of the objective's whole window.")
    excluded = serializers.IntegerField(help_text="Minutes that the seats left out.")
    valid = serializers.IntegerField(source="counts.valid", help_text="Minutes with requests.")
    bad = serializers.IntegerField(source="counts.bad")
    unknown = serializers.IntegerField(help_text="Minutes that passed without a valid request.")
    total = serializers.FloatField(help_text="Minutes that may be bad.")
    left = serializers.FloatField(help_text="Below 0 the promise is missed.")


class ObjectiveStandingSerializer(serializers.Serializer[Any]):
    """An objective of the contract that holds, over its own window that ends now."""

    name = serializers.CharField(source="objective.name")
    target = serializers.FloatField(source="objective.target", help_text="Percent.")
    threshold_ms = serializers.FloatField(source="objective.threshold_ms", allow_null=True)
    window_days = serializers.IntegerField(
        source="objective.window_days", allow_null=True, help_text="Null: the calendar month."
    )
    since = serializers.DateTimeField(source="start")
    state = serializers.ChoiceField([one.value for one in Promise], source="attainment.promise")
    attained = serializers.FloatField(
        source="attainment.attained", allow_null=True, help_text="Percent."
    )
    good = serializers.FloatField(source="attainment.good")
    valid = serializers.IntegerField(source="attainment.valid")
    exact = serializers.BooleanField(source="attainment.exact")
    budget_total = serializers.FloatField(source="attainment.budget_total")
    budget_left = serializers.FloatField(source="attainment.budget_left")
    minutes = MinutesSerializer()
    burns = BurnSerializer(many=True)


class WordSerializer(serializers.Serializer[Any]):
    seat = serializers.CharField()
    person = serializers.CharField(source="person.username")
    at = serializers.DateTimeField()


class SetAsideSerializer(serializers.ModelSerializer[Any]):
    environment = serializers.CharField(source="endpoint.environment.name")
    model = serializers.CharField(source="endpoint.model.name")
    state = serializers.ChoiceField(AgreementState.choices)
    proposed_by = serializers.CharField(source="proposed_by.username")
    withdrawn_by = serializers.CharField(
        source="withdrawn_by.username", allow_null=True, default=None
    )
    agreements = WordSerializer(many=True)


class MaintenanceWindowSerializer(SetAsideSerializer):
    """In force when `state` is agreed: with the words of all three seats."""

    class Meta:
        model = MaintenanceWindow
        fields = SET_ASIDE


class ExclusionSerializer(SetAsideSerializer):
    """Left out of the count when `state` is agreed: with the words of all three seats."""

    class Meta:
        model = Exclusion
        fields = (*SET_ASIDE, "evidence", "incident")


class ExclusionEffectSerializer(serializers.Serializer[Any]):
    """An objective of a month, in percent (null without requests), with the time and without it."""

    month = serializers.DateField(help_text="The first of the calendar month.")
    name = serializers.CharField(source="objective.name")
    target = serializers.FloatField(source="objective.target", help_text="Percent.")
    counted = serializers.FloatField(allow_null=True, help_text="While this time counts.")
    counted_state = serializers.CharField()
    left_out = serializers.FloatField(allow_null=True, help_text="Once it is left out.")
    left_out_state = serializers.CharField()


class ExclusionDetailSerializer(ExclusionSerializer):
    """An exclusion with what it does, or would do, to the promise of its month."""

    effects = serializers.SerializerMethodField()

    class Meta:
        model = Exclusion
        fields = (*SET_ASIDE, "evidence", "incident", "effects")

    @extend_schema_field(ExclusionEffectSerializer(many=True))
    def get_effects(self, exclusion: Exclusion) -> Any:
        return ExclusionEffectSerializer(exclusion_effects(exclusion), many=True).data


class MaintenanceRequestSerializer(serializers.Serializer[Any]):
    """Whole minutes; only the future may be proposed."""

    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField(max_length=2000, help_text="What is done.")


class ExclusionRequestSerializer(serializers.Serializer[Any]):
    """Whole minutes that are over."""

    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField(max_length=2000, help_text="Why it should not count.")
    evidence = serializers.CharField(max_length=2000, help_text="What shows it.")
    incident = serializers.UUIDField(required=False, allow_null=True, default=None)


class WithdrawSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=2000)


class ObjectiveListView(APIView):
    @extend_schema(
        summary="Objectives over their own windows: budgets in requests and minutes, burn rates",
        responses=ObjectiveStandingSerializer(many=True),
    )
    def get(self, request: Request, environment: str, model: str) -> Response:
        endpoint = find_endpoint(environment, model, user=user_of(request))
        found = standings(endpoint, timezone.now())
        return Response(ObjectiveStandingSerializer(found, many=True).data)


class MaintenanceListView(ListAPIView[MaintenanceWindow]):
    serializer_class = MaintenanceWindowSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-starts_at", "-pk")
    queryset = MaintenanceWindow.objects.none()

    @extend_schema(summary="List maintenance windows, latest first", parameters=FILTERS)
    def get(self, request: Request, *args: object, **kwargs: object) -> Response:
        page = self.paginate_queryset(maintenance_list(user=user_of(request), **_wanted(request)))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class MaintenanceProposeView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "maintenance.propose"}

    @extend_schema(
        summary="Propose maintenance; the seats are asked to agree before it begins",
        request=MaintenanceRequestSerializer,
        responses={201: MaintenanceWindowSerializer},
    )
    @idempotent
    def post(self, request: Request, environment: str, model: str) -> Response:
        body = MaintenanceRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        made = propose_maintenance(
            environment=environment, model=model, actor=actor_of(request), **body.validated_data
        )
        return _maintenance(request, made.pk, status.HTTP_201_CREATED)


class MaintenanceView(APIView):
    @extend_schema(summary="Show a maintenance window", responses=MaintenanceWindowSerializer)
    def get(self, request: Request, window_id: uuid.UUID) -> Response:
        return _maintenance(request, window_id)


class MaintenanceAgreeView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "maintenance.agree"}

    @extend_schema(
        summary="Agree for the seat that one sits in",
        request=None,
        responses=MaintenanceWindowSerializer,
    )
    @idempotent
    def post(self, request: Request, window_id: uuid.UUID) -> Response:
        agree_to_maintenance(window_id=window_id, actor=actor_of(request))
        return _maintenance(request, window_id)


class MaintenanceWithdrawView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "maintenance.propose"}

    @extend_schema(
        summary="Take it back; one that runs ends now",
        request=WithdrawSerializer,
        responses=MaintenanceWindowSerializer,
    )
    @idempotent
    def post(self, request: Request, window_id: uuid.UUID) -> Response:
        body = WithdrawSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        withdraw_maintenance(window_id=window_id, actor=actor_of(request), **body.validated_data)
        return _maintenance(request, window_id)


class ExclusionListView(ListAPIView[Exclusion]):
    serializer_class = ExclusionSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-starts_at", "-pk")
    queryset = Exclusion.objects.none()

    @extend_schema(summary="List exclusions, latest first", parameters=FILTERS)
    def get(self, request: Request, *args: object, **kwargs: object) -> Response:
        page = self.paginate_queryset(exclusion_list(user=user_of(request), **_wanted(request)))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class ExclusionProposeView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "sla.exclude"}

    @extend_schema(
        summary="Propose not to count time that is over; the seats are asked",
        request=ExclusionRequestSerializer,
        responses={201: ExclusionDetailSerializer},
    )
    @idempotent
    def post(self, request: Request, environment: str, model: str) -> Response:
        body = ExclusionRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        made = propose_exclusion(
            environment=environment, model=model, actor=actor_of(request), **body.validated_data
        )
        return _exclusion(request, made.pk, status.HTTP_201_CREATED)


class ExclusionView(APIView):
    @extend_schema(
        summary="Show an exclusion, and what it does", responses=ExclusionDetailSerializer
    )
    def get(self, request: Request, exclusion_id: uuid.UUID) -> Response:
        return _exclusion(request, exclusion_id)


class ExclusionAgreeView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "sla.exclude"}

    @extend_schema(
        summary="Agree for the seat that one sits in",
        request=None,
        responses=ExclusionDetailSerializer,
    )
    @idempotent
    def post(self, request: Request, exclusion_id: uuid.UUID) -> Response:
        agree_to_exclusion(exclusion_id=exclusion_id, actor=actor_of(request))
        return _exclusion(request, exclusion_id)


class ExclusionWithdrawView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "sla.exclude"}

    @extend_schema(
        summary="Take it back: the time counts again",
        request=WithdrawSerializer,
        responses=ExclusionDetailSerializer,
    )
    @idempotent
    def post(self, request: Request, exclusion_id: uuid.UUID) -> Response:
        body = WithdrawSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        withdraw_exclusion(
            exclusion_id=exclusion_id, actor=actor_of(request), **body.validated_data
        )
        return _exclusion(request, exclusion_id)


def _wanted(request: Request) -> dict[str, str]:
    return {name: request.query_params.get(name, "") for name in ("environment", "model", "state")}


def _maintenance(request: Request, window_id: uuid.UUID, code: int = 200) -> Response:
    found = find_maintenance(window_id, user=user_of(request))
    return Response(MaintenanceWindowSerializer(found).data, status=code)


def _exclusion(request: Request, exclusion_id: uuid.UUID, code: int = 200) -> Response:
    found = find_exclusion(exclusion_id, user=user_of(request))
    return Response(ExclusionDetailSerializer(found).data, status=code)
