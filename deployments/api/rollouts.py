"""`/api/v1/rollouts/` and `/api/v1/endpoints/…/rollouts/`: progressive rollouts."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from console.errors import NotFound
from deployments.api.rollout_serializers import (
    RolloutActSerializer,
    RolloutDetailSerializer,
    RolloutEndSerializer,
    RolloutRequestSerializer,
    RolloutSerializer,
    RolloutStepActSerializer,
)
from deployments.models import Rollout
from deployments.selectors.rollouts.answers import rollout_in_full
from deployments.selectors.rollouts.pages import rollout_list
from deployments.selectors.traffic.endpoints import find_endpoint
from deployments.services.rollouts.acts import (
    abort_rollout,
    pause_rollout,
    promote_rollout,
    resume_rollout,
    skip_step,
    start_rollout,
)

STATE = OpenApiParameter("state", str, description="active, ended, or one of the states.")


class _Rollouts(ListAPIView[Rollout]):
    serializer_class = RolloutSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-created_at", "-pk")
    queryset = Rollout.objects.none()

    def page(self, request: Request, **wanted: str) -> Response:
        state = request.query_params.get("state", "")
        found = rollout_list(user=user_of(request), state=state, **wanted)
        page = self.paginate_queryset(found)
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


@extend_schema(
    summary="List rollouts of all endpoints, newest first",
    parameters=[
        STATE,
        OpenApiParameter("environment", str),
        OpenApiParameter("model", str),
        OpenApiParameter("q", str, description="Found in the model's name."),
    ],
)
class RolloutListView(_Rollouts):
    def list(self, request: Request, *args: object, **kwargs: object) -> Response:
        given = request.query_params
        return self.page(
            request,
            environment=given.get("environment", ""),
            model=given.get("model", ""),
            query=given.get("q", ""),
        )


class EndpointRolloutListView(_Rollouts):
    required_actions: ClassVar[dict[str, str]] = {"POST": "rollout.start"}

    @extend_schema(summary="List an endpoint's rollouts, newest first", parameters=[STATE])
    def get(self, request: Request, environment: str, model: str) -> Response:
        find_endpoint(environment, model, user=user_of(request))
        return self.page(request, environment=environment, model=model)

    @extend_schema(
        summary="Start to give a version traffic, step by step",
        request=RolloutRequestSerializer,
        responses={201: RolloutDetailSerializer},
    )
    @idempotent
    def post(self, request: Request, environment: str, model: str) -> Response:
        body = RolloutRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        rollout = start_rollout(
            environment=environment, model=model, actor=actor_of(request), **body.validated_data
        )
        return Response(_detail(request, environment, model, rollout.pk), status=201)


class RolloutView(APIView):
    @extend_schema(
        summary="Show a rollout with its steps, measurements and events",
        responses=RolloutDetailSerializer,
    )
    def get(
        self, request: Request, environment: str, model: str, rollout_id: uuid.UUID
    ) -> Response:
        return Response(_detail(request, environment, model, rollout_id))


class RolloutPauseView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "rollout.control"}

    @extend_schema(
        summary="Begin no step until it is resumed",
        request=RolloutActSerializer,
        responses=RolloutDetailSerializer,
    )
    @idempotent
    def post(
        self, request: Request, environment: str, model: str, rollout_id: uuid.UUID
    ) -> Response:
        return _act(request, environment, model, rollout_id, pause_rollout, RolloutActSerializer)


class RolloutResumeView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "rollout.control"}

    @extend_schema(
        summary="Let a paused rollout go on, or approve it",
        request=RolloutStepActSerializer,
        responses=RolloutDetailSerializer,
    )
    @idempotent
    def post(
        self, request: Request, environment: str, model: str, rollout_id: uuid.UUID
    ) -> Response:
        return _act(
            request, environment, model, rollout_id, resume_rollout, RolloutStepActSerializer
        )


class RolloutSkipView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "rollout.control"}

    @extend_schema(
        summary="End the step under way",
        request=RolloutStepActSerializer,
        responses=RolloutDetailSerializer,
    )
    @idempotent
    def post(
        self, request: Request, environment: str, model: str, rollout_id: uuid.UUID
    ) -> Response:
        return _act(request, environment, model, rollout_id, skip_step, RolloutStepActSerializer)


class RolloutPromoteView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "rollout.control"}

    @extend_schema(
        summary="Give the version all traffic now",
        request=RolloutEndSerializer,
        responses=RolloutDetailSerializer,
    )
    @idempotent
    def post(
        self, request: Request, environment: str, model: str, rollout_id: uuid.UUID
    ) -> Response:
        return _act(request, environment, model, rollout_id, promote_rollout, RolloutEndSerializer)


class RolloutAbortView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "rollout.control"}

    @extend_schema(
        summary="Take all traffic off the version now",
        request=RolloutEndSerializer,
        responses=RolloutDetailSerializer,
    )
    @idempotent
    def post(
        self, request: Request, environment: str, model: str, rollout_id: uuid.UUID
    ) -> Response:
        return _act(request, environment, model, rollout_id, abort_rollout, RolloutEndSerializer)


def _act(
    request: Request,
    environment: str,
    model: str,
    rollout_id: uuid.UUID,
    act: Any,
    serializer: type[RolloutActSerializer | RolloutEndSerializer],
) -> Response:
    body = serializer(data=request.data)
    body.is_valid(raise_exception=True)
    seen = rollout_list(user=user_of(request), environment=environment, model=model)
    if not seen.filter(pk=rollout_id).exists():
        raise _no_such(environment, model)
    act(rollout_id=rollout_id, actor=actor_of(request), **body.validated_data)
    return Response(_detail(request, environment, model, rollout_id))


def _detail(
    request: Request, environment: str, model: str, rollout_id: uuid.UUID
) -> dict[str, Any]:
    rollout = rollout_in_full(
        rollout_id, user=user_of(request), environment=environment, model=model
    )
    if rollout is None:
        raise _no_such(environment, model)
    return dict(RolloutDetailSerializer(rollout).data)


def _no_such(environment: str, model: str) -> NotFound:
    return NotFound(f"{environment}/{model} has no such rollout.", hint="See its list.")
