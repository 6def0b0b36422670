"""`/api/v1/jobs/`"""

from __future__ import annotations

import uuid
from typing import ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.api.idempotency import idempotent
from console.api.serializers import JobDetailSerializer, JobSerializer, ReasonSerializer
from console.models import Job
from console.selectors.jobs import JobFilter, find_job, job_list, job_page
from console.services.jobs import cancel_job, retry_job

FILTERS = ("state", "kind", "subject", "person", "q")


@extend_schema(
    summary="List jobs, newest first",
    parameters=[
        OpenApiParameter("state", str, description="A state, or `active`, or `ended_badly`."),
        OpenApiParameter("kind", str),
        OpenApiParameter("subject", str, description="What the subject starts with."),
        OpenApiParameter("person", str, description="Username of who asked."),
        OpenApiParameter("q", str, description="Found in subject, kind or error."),
    ],
)
class JobListView(ListAPIView[Job]):
    serializer_class = JobSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-created_at", "-pk")
    queryset = Job.objects.none()

    def list(self, request: Request, *args: object, **kwargs: object) -> Response:
        wanted = JobFilter(**{name: request.query_params.get(name, "") for name in FILTERS})
        page = self.paginate_queryset(job_list(wanted, user=actor_of(request).user))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class JobView(APIView):
    @extend_schema(summary="Show a job with its log", responses=JobDetailSerializer)
    def get(self, request: Request, job_id: uuid.UUID) -> Response:
        return Response(_detail(request, job_id))


class JobCancelView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "job.manage_own"}

    @extend_schema(summary="Cancel a job", request=ReasonSerializer, responses=JobDetailSerializer)
    @idempotent
    def post(self, request: Request, job_id: uuid.UUID) -> Response:
        body = ReasonSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        cancel_job(job_id=job_id, actor=actor_of(request), reason=body.validated_data["reason"])
        return Response(_detail(request, job_id))


class JobRetryView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "job.manage_own"}

    @extend_schema(
        summary="Retry a job that failed, errored or was cancelled",
        request=None,
        responses=JobDetailSerializer,
    )
    @idempotent
    def post(self, request: Request, job_id: uuid.UUID) -> Response:
        retry_job(job_id=job_id, actor=actor_of(request))
        return Response(_detail(request, job_id))


def _detail(request: Request, job_id: uuid.UUID) -> dict[str, object]:
    job = find_job(job_id, user=actor_of(request).user)
    body = dict(JobSerializer(job).data)
    body["lines"] = JobDetailSerializer().fields["lines"].to_representation(job_page(job).lines)
    return body
