"""`/api/v1/models/{model}/releases/`"""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from console.api.serializers import ReasonSerializer
from console.rules.canonical import digest
from console.rules.dsse import RELEASE_PAYLOAD_TYPE
from models_registry.api.content import AnyAccept, exact_bytes
from models_registry.api.release_serializers import ReleaseSerializer
from models_registry.api.requests import (
    BreakGlassRequestSerializer,
    CreateReleaseSerializer,
    DecisionSerializer,
    ReviewSerializer,
)
from models_registry.models import Release
from models_registry.selectors.catalog import find_model
from models_registry.selectors.releases import find_environment, find_release, release_list
from models_registry.services.break_glass import break_the_glass, review_break_glass
from models_registry.services.releases import (
    approve_release,
    refuse_release,
    release_bundle,
    request_release,
    withdraw_release,
)

FILTERS = ("environment", "state", "version", "broken_glass")
PARAMETERS = [
    OpenApiParameter("environment", str),
    OpenApiParameter("state", str),
    OpenApiParameter("version", str),
    OpenApiParameter(
        "broken_glass",
        str,
        description="Released against the policy: yes, no, or open for not looked into yet.",
    ),
]


class ReleaseListView(ListAPIView[Release]):
    serializer_class = ReleaseSerializer
    required_actions: ClassVar[dict[str, str]] = {"POST": "release.request"}
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-requested_at", "-pk")
    queryset = Release.objects.none()

    @extend_schema(
        summary="List a model's releases, newest first",
        parameters=PARAMETERS,
    )
    def get(self, request: Request, name: str) -> Response:
        find_model(name, user=user_of(request))
        wanted = {key: request.query_params.get(key, "") for key in FILTERS}
        page = self.paginate_queryset(
            release_list(model_name=name, **wanted, user=user_of(request))
        )
        return self.get_paginated_response(ReleaseSerializer(page, many=True).data)

    @extend_schema(
        summary="Ask to release a version to an environment",
        request=CreateReleaseSerializer,
        responses={201: ReleaseSerializer},
    )
    @idempotent
    def post(self, request: Request, name: str) -> Response:
        body = CreateReleaseSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        release = request_release(
            model=find_model(name, user=user_of(request)),
            number=body.validated_data["version"],
            environment=find_environment(body.validated_data["environment"]),
            note=body.validated_data["note"],
            break_glass=body.validated_data["break_glass"],
            actor=actor_of(request),
        )
        return Response(
            ReleaseSerializer(find_release(release.pk, user=user_of(request))).data,
            status.HTTP_201_CREATED,
        )


class AllReleasesView(ListAPIView[Release]):
    serializer_class = ReleaseSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-requested_at", "-pk")
    queryset = Release.objects.none()

    @extend_schema(
        summary="List releases of all models, newest first",
        parameters=[OpenApiParameter("model", str), *PARAMETERS],
    )
    def get(self, request: Request) -> Response:
        wanted = {key: request.query_params.get(key, "") for key in FILTERS}
        page = self.paginate_queryset(
            release_list(
                model_name=request.query_params.get("model", ""), **wanted, user=user_of(request)
            )
        )
        return self.get_paginated_response(ReleaseSerializer(page, many=True).data)


class ReleaseView(APIView):
    @extend_schema(summary="Show a release with its approvals", responses=ReleaseSerializer)
    def get(self, request: Request, name: str, release_id: uuid.UUID) -> Response:
        return Response(
            ReleaseSerializer(find_release(release_id, model_name=name, user=user_of(request))).data
        )


class ReleasePayloadView(APIView):
    content_negotiation_class = AnyAccept

    @extend_schema(
        summary="The exact bytes to sign",
        responses={(200, RELEASE_PAYLOAD_TYPE): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, name: str, release_id: uuid.UUID) -> HttpResponse:
        release = find_release(release_id, model_name=name, user=user_of(request))
        return exact_bytes(
            bytes(release.payload),
            content_type=RELEASE_PAYLOAD_TYPE,
            sha256=release.digest,
            filename=f"{name}-release-{release_id}.json",
        )


class ReleaseApprovalView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "release.decide"}

    @extend_schema(
        summary="Approve with a signed envelope, or refuse with a reason",
        request=DecisionSerializer,
        responses={201: ReleaseSerializer},
    )
    @idempotent
    def post(self, request: Request, name: str, release_id: uuid.UUID) -> Response:
        body = DecisionSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        release, actor = (
            find_release(release_id, model_name=name, user=user_of(request)),
            actor_of(request),
        )
        if body.validated_data["approve"]:
            approve_release(release=release, envelope=body.validated_data["envelope"], actor=actor)
        else:
            refuse_release(release=release, reason=body.validated_data["reason"], actor=actor)
        return Response(
            ReleaseSerializer(find_release(release_id, user=user_of(request))).data,
            status.HTTP_201_CREATED,
        )


class ReleaseBreakGlassView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "release.break_glass"}

    @extend_schema(
        summary="Release against the policy, signed, with a reason that stays",
        request=BreakGlassRequestSerializer,
        responses={201: ReleaseSerializer},
    )
    @idempotent
    def post(self, request: Request, name: str, release_id: uuid.UUID) -> Response:
        body = BreakGlassRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        user = user_of(request)
        break_the_glass(
            release=find_release(release_id, model_name=name, user=user),
            **body.validated_data,
            actor=actor_of(request),
        )
        found = find_release(release_id, user=user)
        return Response(ReleaseSerializer(found).data, status.HTTP_201_CREATED)


class ReleaseReviewView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "release.review"}

    @extend_schema(
        summary="Say what came of looking into a release against the policy",
        request=ReviewSerializer,
        responses=ReleaseSerializer,
    )
    @idempotent
    def post(self, request: Request, name: str, release_id: uuid.UUID) -> Response:
        body = ReviewSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        user = user_of(request)
        review_break_glass(
            release=find_release(release_id, model_name=name, user=user),
            review=body.validated_data["review"],
            actor=actor_of(request),
        )
        return Response(ReleaseSerializer(find_release(release_id, user=user)).data)


class ReleaseWithdrawView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "release.request"}

    @extend_schema(
        summary="Withdraw an open release", request=ReasonSerializer, responses=ReleaseSerializer
    )
    @idempotent
    def post(self, request: Request, name: str, release_id: uuid.UUID) -> Response:
        body = ReasonSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        withdraw_release(
            release=find_release(release_id, model_name=name, user=user_of(request)),
            reason=body.validated_data["reason"],
            actor=actor_of(request),
        )
        return Response(ReleaseSerializer(find_release(release_id, user=user_of(request))).data)


class ReleaseBundleView(APIView):
    content_negotiation_class = AnyAccept

    @extend_schema(summary="Everything that an offline check needs", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, name: str, release_id: uuid.UUID) -> HttpResponse:
        data = release_bundle(find_release(release_id, model_name=name, user=user_of(request)))
        return exact_bytes(
            data,
            content_type="application/json",
            sha256=digest(data),
            filename=f"{name}-release-{release_id}.bundle.json",
        )
