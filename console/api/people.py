"""`/api/v1/people/`: who there is, their roles, their tokens, and their going."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.api.idempotency import idempotent
from console.api.people_serializers import (
    ChangeRolesSerializer,
    CreatePersonSerializer,
    DeactivatedSerializer,
    DeactivateSerializer,
    DepartureSerializer,
    NewPersonSerializer,
    OwnedTokenSerializer,
    PersonSerializer,
)
from console.api.serializers import ReasonSerializer
from console.models import ApiToken, User
from console.selectors.departures import departure_of
from console.selectors.people import find_person, people, people_rows, tokens_of
from console.services.departures import deactivate_person, reactivate_person
from console.services.people import change_roles, create_person

NO_STORE = {"Cache-Control": "no-store"}
MANAGE: dict[str, str] = {"POST": "user.manage", "PATCH": "user.manage"}


class PersonListView(ListAPIView[User]):
    serializer_class = PersonSerializer
    required_actions: ClassVar[dict[str, str]] = MANAGE
    pagination_ordering: ClassVar[tuple[str, ...]] = ("username",)
    queryset = User.objects.none()

    @extend_schema(
        summary="List people",
        parameters=[
            OpenApiParameter("q", str, description="In the name or the e-mail address."),
            OpenApiParameter("role", str, description="Held globally or in a team."),
            OpenApiParameter("team", str),
            OpenApiParameter("state", str, enum=["active", "deactivated", "all"]),
        ],
    )
    def get(self, request: Request) -> Response:
        wanted = {name: request.query_params.get(name, "")[:100] for name in ("q", "role", "team")}
        state = request.query_params.get("state", "active")
        page = self.paginate_queryset(people(**wanted, state=state)) or []
        rows = people_rows(page, viewer=actor_of(request).user)
        return self.get_paginated_response(PersonSerializer(rows, many=True).data)

    @extend_schema(
        summary="Create a person; the first password is given once",
        request=CreatePersonSerializer,
        responses={201: NewPersonSerializer},
    )
    def post(self, request: Request) -> Response:
        body = CreatePersonSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        person, clear = create_person(**body.validated_data, actor=actor_of(request))
        answer = {**_row(request, person.username), "password": clear}
        return Response(answer, status.HTTP_201_CREATED, headers=NO_STORE)


class PersonView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(summary="Show a person", responses=PersonSerializer)
    def get(self, request: Request, username: str) -> Response:
        return Response(_row(request, username))

    @extend_schema(
        summary="Give a person exactly these roles for everything",
        request=ChangeRolesSerializer,
        responses=PersonSerializer,
    )
    @idempotent
    def patch(self, request: Request, username: str) -> Response:
        body = ChangeRolesSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        change_roles(username=username, **body.validated_data, actor=actor_of(request))
        return Response(_row(request, username))


class DepartureView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"GET": "user.manage"}

    @extend_schema(
        summary="What a person carries and has, before they are deactivated",
        responses=DepartureSerializer,
    )
    def get(self, request: Request, username: str) -> Response:
        return Response(DepartureSerializer(departure_of(find_person(username))).data)


class DeactivateView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(
        summary="Deactivate a person and hand over what they carry: all of it or nothing",
        request=DeactivateSerializer,
        responses=DeactivatedSerializer,
    )
    @idempotent
    def post(self, request: Request, username: str) -> Response:
        body = DeactivateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        ended = deactivate_person(username=username, **body.validated_data, actor=actor_of(request))
        return Response(DeactivatedSerializer(ended).data)


class ReactivateView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(
        summary="Let a person in again, with nothing of what they had",
        request=ReasonSerializer,
        responses=PersonSerializer,
    )
    @idempotent
    def post(self, request: Request, username: str) -> Response:
        body = ReasonSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        reactivate_person(username=username, **body.validated_data, actor=actor_of(request))
        return Response(_row(request, username))


class PersonTokenListView(ListAPIView[ApiToken]):
    serializer_class = OwnedTokenSerializer
    required_actions: ClassVar[dict[str, str]] = {"GET": "user.manage"}
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-created_at", "-pk")
    queryset = ApiToken.objects.none()

    @extend_schema(summary="List somebody's tokens; each is revoked by POST /tokens/{id}/revoke/")
    def get(self, request: Request, username: str) -> Response:
        tokens = tokens_of(find_person(username)).select_related("user")
        page = self.paginate_queryset(tokens)
        return self.get_paginated_response(OwnedTokenSerializer(page, many=True).data)


def _row(request: Request, username: str) -> dict[str, Any]:
    actor = actor_of(request)
    rows = people_rows([find_person(username)], viewer=actor.user)
    return dict(PersonSerializer(rows[0]).data)
