"""`/api/v1/models/{model}/contracts/{revision}/comments/`"""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.api.idempotency import idempotent
from models_registry.api.requests import AddCommentSerializer
from models_registry.models import ContractComment
from models_registry.selectors.contract_comments import comment_list
from models_registry.selectors.contracts import find_contract
from models_registry.services.contract_comments import (
    add_comment,
    reopen_comment,
    resolve_comment,
)


class CommentSerializer(serializers.ModelSerializer[ContractComment]):
    author = serializers.CharField(source="author.username")
    answers = serializers.IntegerField(
        source="answers_id", allow_null=True, help_text="The comment that it replies to."
    )
    resolved_by = serializers.CharField(source="resolved_by.username", default=None)

    class Meta:
        model = ContractComment
        fields: ClassVar[list[str]] = [
            "id",
            "author",
            "at",
            "pointer",
            "text",
            "answers",
            "resolved_at",
            "resolved_by",
        ]


class CommentListView(ListAPIView[ContractComment]):
    serializer_class = CommentSerializer
    required_actions: ClassVar[dict[str, str]] = {"POST": "contract.comment"}
    pagination_ordering: ClassVar[tuple[str, ...]] = ("at", "pk")
    queryset = ContractComment.objects.none()

    @extend_schema(summary="List what is said of a contract, oldest first")
    def get(self, request: Request, name: str, revision: int) -> Response:
        contract = find_contract(name, revision, user=actor_of(request).user)
        page = self.paginate_queryset(comment_list(contract))
        return self.get_paginated_response(CommentSerializer(page, many=True).data)

    @extend_schema(
        summary="Comment on a proposal, on a clause of it, or answer a comment",
        request=AddCommentSerializer,
        responses={201: CommentSerializer},
    )
    @idempotent
    def post(self, request: Request, name: str, revision: int) -> Response:
        body = AddCommentSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor = actor_of(request)
        contract = find_contract(name, revision, user=actor.user)
        comment = add_comment(contract=contract, actor=actor, **body.validated_data)
        return Response(CommentSerializer(comment).data, status.HTTP_201_CREATED)


class CommentResolveView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "contract.comment"}

    @extend_schema(summary="A comment is dealt with", request=None, responses=CommentSerializer)
    @idempotent
    def post(self, request: Request, name: str, revision: int, comment_id: int) -> Response:
        return _settle(request, name, revision, comment_id, resolve_comment)


class CommentReopenView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "contract.comment"}

    @extend_schema(
        summary="A comment is not dealt with after all", request=None, responses=CommentSerializer
    )
    @idempotent
    def post(self, request: Request, name: str, revision: int, comment_id: int) -> Response:
        return _settle(request, name, revision, comment_id, reopen_comment)


def _settle(request: Request, name: str, revision: int, comment_id: int, settle: Any) -> Response:
    actor = actor_of(request)
    contract = find_contract(name, revision, user=actor.user)
    comment = settle(contract=contract, comment_id=comment_id, actor=actor)
    return Response(CommentSerializer(comment).data)
