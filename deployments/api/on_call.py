"""`/api/v1/on-call/` and `/api/v1/escalations/`: who is called, and when nobody comes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.api.idempotency import idempotent
from deployments.api.on_call_serializers import (
    NowOnCallSerializer,
    OverrideSerializer,
    PolicyChangeSerializer,
    PolicySerializer,
    ScheduleChangeSerializer,
    ScheduleSerializer,
    ShiftSerializer,
    TakeOverSerializer,
)
from deployments.api.statistics import moment_of
from deployments.models import EscalationPolicy, OnCallSchedule
from deployments.selectors.alerts.calendar import (
    MOST_SCHEDULES,
    on_call_now,
    overrides_of,
    person_shifts,
)
from deployments.services.alerts.policies import find_policy, remove_policy, set_policy
from deployments.services.alerts.schedules import (
    end_override,
    find_schedule,
    remove_schedule,
    set_schedule,
    take_over,
)

MANAGE: dict[str, str] = dict.fromkeys(("POST", "PUT", "DELETE"), "on_call.manage")
SHOWN = timedelta(days=28)


class OnCallView(APIView):
    @extend_schema(
        summary="Who is on call now, by each schedule", responses=NowOnCallSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        return Response(NowOnCallSerializer(on_call_now(timezone.now()), many=True).data)


class ScheduleListView(APIView):
    @extend_schema(
        summary="List the schedules by name, at most 100", responses=ScheduleSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        rows = OnCallSchedule.objects.select_related("team")[:MOST_SCHEDULES]
        return Response(ScheduleSerializer(rows, many=True).data)


class ScheduleView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(summary="One schedule", responses=ScheduleSerializer)
    def get(self, request: Request, schedule: str) -> Response:
        return Response(ScheduleSerializer(find_schedule(schedule)).data)

    @extend_schema(
        summary="Make a schedule, or decide it anew",
        request=ScheduleChangeSerializer,
        responses=ScheduleSerializer,
    )
    def put(self, request: Request, schedule: str) -> Response:
        asked = ScheduleChangeSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        set_schedule(
            name=schedule,
            terms=asked.terms(),
            revision=asked.validated_data.get("revision"),
            reason=asked.validated_data["reason"],
            actor=actor_of(request),
        )
        return Response(ScheduleSerializer(find_schedule(schedule)).data)

    @extend_schema(summary="Take a schedule away", responses={204: None})
    def delete(self, request: Request, schedule: str) -> Response:
        remove_schedule(name=schedule, actor=actor_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class ShiftListView(APIView):
    @extend_schema(
        summary="Who is on call between two moments, without gaps; 28 days from now by default",
        parameters=[
            OpenApiParameter("from", datetime),
            OpenApiParameter("to", datetime, description="At most 400 days later."),
        ],
        responses=ShiftSerializer(many=True),
    )
    def get(self, request: Request, schedule: str) -> Response:
        start = moment_of(request, "from") or timezone.now()
        end = moment_of(request, "to") or start + SHOWN
        found = person_shifts(find_schedule(schedule), start, max(start, end))
        return Response(ShiftSerializer(found, many=True).data)


class OverrideListView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(
        summary="Who takes over now or later, at most 100", responses=OverrideSerializer(many=True)
    )
    def get(self, request: Request, schedule: str) -> Response:
        found = overrides_of(find_schedule(schedule), timezone.now())
        return Response(OverrideSerializer(found, many=True).data)

    @extend_schema(
        summary="Take over: be on call oneself, or put somebody on call",
        request=TakeOverSerializer,
        responses={201: OverrideSerializer},
    )
    @idempotent
    def post(self, request: Request, schedule: str) -> Response:
        asked = TakeOverSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        made = take_over(schedule=schedule, **asked.validated_data, actor=actor_of(request))
        return Response(OverrideSerializer(made).data, status=status.HTTP_201_CREATED)


class OverrideView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(summary="Let the schedule hold again", responses={204: None})
    def delete(self, request: Request, override_id: int) -> Response:
        end_override(override_id=override_id, actor=actor_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class PolicyListView(APIView):
    @extend_schema(
        summary="List the escalations by name, at most 100", responses=PolicySerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        rows = EscalationPolicy.objects.all()[:MOST_SCHEDULES]
        return Response(PolicySerializer(rows, many=True).data)


class PolicyView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(summary="One escalation", responses=PolicySerializer)
    def get(self, request: Request, policy: str) -> Response:
        return Response(PolicySerializer(find_policy(policy)).data)

    @extend_schema(
        summary="Make an escalation, or decide it anew",
        request=PolicyChangeSerializer,
        responses=PolicySerializer,
    )
    def put(self, request: Request, policy: str) -> Response:
        asked = PolicyChangeSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        set_policy(
            name=policy,
            steps=asked.steps_given(),
            repeats=asked.validated_data["repeats"],
            revision=asked.validated_data.get("revision"),
            reason=asked.validated_data["reason"],
            actor=actor_of(request),
        )
        return Response(PolicySerializer(find_policy(policy)).data)

    @extend_schema(summary="Take an escalation away", responses={204: None})
    def delete(self, request: Request, policy: str) -> Response:
        remove_policy(name=policy, actor=actor_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)
