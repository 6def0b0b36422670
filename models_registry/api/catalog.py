"""`/api/v1/models/`"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import transaction
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.actors import Actor
from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from models_registry.api.requests import (
    ChangeModelSerializer,
    CreateModelSerializer,
)
from models_registry.api.serializers import ModelSerializer
from models_registry.models import RegisteredModel
from models_registry.selectors.catalog import find_model, find_person, find_team, model_list
from models_registry.services.catalog import (
    assign_seat,
    change_model,
    register_model,
    set_alias,
)

FILTERS = ("q", "state", "owner", "tag", "risk_class")


class ModelListView(ListAPIView[RegisteredModel]):
    serializer_class = ModelSerializer
    required_actions: ClassVar[dict[str, str]] = {"POST": "model.create"}
    queryset = RegisteredModel.objects.none()

    @extend_schema(
        summary="List models",
        parameters=[
            OpenApiParameter("q", str, description="In the name, the description or a tag."),
            OpenApiParameter("state", str, description="State of the newest version."),
            OpenApiParameter("owner", str),
            OpenApiParameter("tag", str),
            OpenApiParameter("risk_class", str),
            OpenApiParameter("mine", bool, description="Owned, or with a seat of one's own."),
        ],
    )
    def get(self, request: Request) -> Response:
        wanted = {name: request.query_params.get(name, "") for name in FILTERS}
        mine = request.query_params.get("mine", "") in ("1", "true")
        page = self.paginate_queryset(model_list(actor_of(request).user, mine=mine, **wanted))
        return self.get_paginated_response(ModelSerializer(page, many=True).data)

    @extend_schema(
        summary="Register a model", request=CreateModelSerializer, responses={201: ModelSerializer}
    )
    @idempotent
    def post(self, request: Request) -> Response:
        body = CreateModelSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        model = register_model(**_with_people(body.validated_data), actor=actor_of(request))
        return Response(
            ModelSerializer(find_model(model.name, user=user_of(request))).data,
            status.HTTP_201_CREATED,
        )


class ModelView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"PATCH": "model.change"}

    @extend_schema(summary="Show a model", responses=ModelSerializer)
    def get(self, request: Request, name: str) -> Response:
        return Response(ModelSerializer(find_model(name, user=user_of(request))).data)

    @extend_schema(
        summary="Change a model, its seats and its aliases: all of it or nothing",
        request=ChangeModelSerializer,
        responses=ModelSerializer,
    )
    @idempotent
    def patch(self, request: Request, name: str) -> Response:
        body = ChangeModelSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        model, wanted = find_model(name, user=user_of(request)), _with_people(body.validated_data)
        with transaction.atomic():
            _change(model, wanted, actor_of(request))
        return Response(ModelSerializer(find_model(name, user=user_of(request))).data)


def _with_people(wanted: dict[str, Any]) -> dict[str, Any]:
    """The request with user and team names looked up."""
    found = dict(wanted)
    if "owner" in found:
        found["owner"] = find_person(found["owner"], pointer="/owner")
    if found.get("team"):
        found["team"] = find_team(found["team"], pointer="/team")
    if "seats" in found:
        found["seats"] = {
            seat: find_person(username, pointer=f"/seats/{seat}")
            for seat, username in found["seats"].items()
        }
    return found


def _change(model: RegisteredModel, wanted: dict[str, Any], actor: Actor) -> None:
    seats, aliases = wanted.pop("seats", {}), wanted.pop("aliases", {})
    if wanted:
        change_model(model=model, changes=wanted, actor=actor)
    for seat, user in seats.items():
        assign_seat(model=model, seat=seat, user=user, actor=actor)
    for alias, number in aliases.items():
        set_alias(model=model, name=alias, number=number, actor=actor)
