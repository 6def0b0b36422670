"""`/api/v1/notices/`: what one was told."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.models import Notice
from console.selectors.notices import notices_of
from console.services.notices import dismiss


class NoticeSerializer(serializers.ModelSerializer[Notice]):
    class Meta:
        model = Notice
        fields: ClassVar[list[str]] = [
            "id",
            "kind",
            "severity",
            "subject",
            "subject_url",
            "data",
            "created_at",
            "done_at",
            "ended_at",
        ]


@extend_schema(
    summary="List one's notices, newest first",
    parameters=[OpenApiParameter("all", bool, description="Also those that are seen to.")],
)
class NoticeListView(ListAPIView[Notice]):
    serializer_class = NoticeSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-created_at", "-pk")
    queryset = Notice.objects.none()

    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        every = request.query_params.get("all", "") in {"1", "true"}
        page = self.paginate_queryset(notices_of(actor_of(request).user, only_open=not every))
        return self.get_paginated_response(NoticeSerializer(page, many=True).data)


class NoticeDoneView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "notice.manage_own"}

    @extend_schema(
        summary="See to one of one's notices", request=None, responses={200: NoticeSerializer}
    )
    def post(self, request: Request, notice_id: int) -> Response:
        notice = dismiss(notice_id=notice_id, actor=actor_of(request))
        return Response(NoticeSerializer(notice).data)
