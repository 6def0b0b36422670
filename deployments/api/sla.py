"""`/api/v1/sla/` and `…/endpoints/…/sla/`: promises, their documents, links and reports by mail."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.actors import require
from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from console.rules.canonical import digest
from deployments.api.sla_serializers import (
    SlaRowSerializer,
    SlaSerializer,
    SlaSharedSerializer,
    SlaShareRequestSerializer,
    SlaShareRevokeSerializer,
    SlaShareSerializer,
    SlaSubscriptionRequestSerializer,
    SlaSubscriptionSerializer,
)
from deployments.documents.sla_reports import portfolio_pdf, promise_pdf
from deployments.models import Endpoint
from deployments.selectors.objectives.sla import sla, sla_csv
from deployments.selectors.objectives.sla_portfolio import (
    PortfolioFilter,
    month_portfolio,
    portfolio_csv,
    promised,
    rows_of,
)
from deployments.selectors.objectives.sla_subscriptions import (
    find_subscription,
    shares_of,
    subscriptions_of,
)
from deployments.selectors.traffic.endpoints import find_endpoint
from deployments.services.objectives.sla_shares import revoke_share, share_sla
from deployments.services.objectives.sla_subscriptions import (
    send_report_now,
    subscribe,
    unsubscribe,
)
from models_registry.api.content import AnyAccept, exact_bytes

MONTH = OpenApiParameter("month", str, description="YYYY-MM; the present month without it.")
LANG = OpenApiParameter("lang", str, description="en or zh-hans.")
FILTERS = [
    OpenApiParameter("environment", str),
    OpenApiParameter("team", str, description="A team's slug."),
    OpenApiParameter("state", str, description="broken, at_risk, no_data or kept."),
    OpenApiParameter("q", str, description="Found in the model's name."),
]


@extend_schema(summary="List promises, the worst first, over their own windows", parameters=FILTERS)
class SlaListView(ListAPIView[Endpoint]):
    serializer_class = SlaRowSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("sla_rank", "sla_name", "pk")
    queryset = Endpoint.objects.none()

    def list(self, request: Request, *args: object, **kwargs: object) -> Response:
        page = self.paginate_queryset(promised(_wanted(request), user=user_of(request)))
        rows = rows_of(page or [], timezone.now())
        return self.get_paginated_response(SlaRowSerializer(rows, many=True).data)


class SlaPortfolioCsvView(APIView):
    content_negotiation_class = AnyAccept

    @extend_schema(
        summary="All promises over a month as CSV",
        parameters=[MONTH, *FILTERS],
        responses={(200, "text/csv"): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> HttpResponse:
        found = month_portfolio(
            _month(request), timezone.now(), _wanted(request), user=user_of(request)
        )
        return _csv(portfolio_csv(found), f"promises-{found.first:%Y-%m}.csv")


class SlaPortfolioPdfView(APIView):
    content_negotiation_class = AnyAccept

    @extend_schema(
        summary="All promises over a month as PDF",
        parameters=[MONTH, LANG, *FILTERS],
        responses={(200, "application/pdf"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request) -> HttpResponse:
        data, name = portfolio_pdf(
            _month(request),
            _wanted(request),
            user=user_of(request),
            language=request.query_params.get("lang", ""),
            now=timezone.now(),
        )
        return _pdf(data, name)


class SlaView(APIView):
    @extend_schema(
        summary="Objectives, what was attained, and the error budget of a month",
        parameters=[MONTH],
        responses=SlaSerializer,
    )
    def get(self, request: Request, environment: str, model: str) -> Response:
        endpoint = find_endpoint(environment, model, user=user_of(request))
        return Response(SlaSerializer(sla(endpoint, _month(request), timezone.now())).data)


class SlaCsvView(APIView):
    @extend_schema(
        summary="The same month as CSV",
        parameters=[MONTH],
        responses={(200, "text/csv"): OpenApiTypes.STR},
    )
    def get(self, request: Request, environment: str, model: str) -> HttpResponse:
        endpoint = find_endpoint(environment, model, user=user_of(request))
        page = sla(endpoint, _month(request), timezone.now())
        return _csv(sla_csv(page), f"sla-{environment}-{model}-{page.month}.csv")


class SlaPdfView(APIView):
    content_negotiation_class = AnyAccept

    @extend_schema(
        summary="The same month as PDF",
        parameters=[MONTH, LANG],
        responses={(200, "application/pdf"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, environment: str, model: str) -> HttpResponse:
        endpoint = find_endpoint(environment, model, user=user_of(request))
        language = request.query_params.get("lang", "")
        return _pdf(*promise_pdf(endpoint, _month(request), language=language, now=timezone.now()))


class SlaShareListView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"GET": "sla.share", "POST": "sla.share"}

    @extend_schema(
        summary="The links that show a promise, newest first; a hundred at most",
        responses=SlaShareSerializer(many=True),
    )
    def get(self, request: Request, environment: str, model: str) -> Response:
        endpoint = find_endpoint(environment, model, user=user_of(request))
        require(actor_of(request), "sla.share", endpoint.model.team_id)
        return Response(SlaShareSerializer(shares_of(endpoint), many=True).data)

    @extend_schema(
        summary="Make a link that shows this promise without an account; told this once",
        request=SlaShareRequestSerializer,
        responses={201: SlaSharedSerializer},
    )
    def post(self, request: Request, environment: str, model: str) -> Response:
        body = SlaShareRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        shared = share_sla(
            environment=environment, model=model, actor=actor_of(request), **body.validated_data
        )
        shared.share.link = shared.link  # type: ignore[attr-defined]
        answer = Response(SlaSharedSerializer(shared.share).data, status=201)
        answer["Cache-Control"] = "no-store"
        return answer


class SlaShareRevokeView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "sla.share"}

    @extend_schema(
        summary="Take a link back",
        request=SlaShareRevokeSerializer,
        responses=SlaShareSerializer,
    )
    @idempotent
    def post(self, request: Request, share_id: uuid.UUID) -> Response:
        body = SlaShareRevokeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        share = revoke_share(share_id=share_id, actor=actor_of(request), **body.validated_data)
        return Response(SlaShareSerializer(share).data)


class SlaSubscriptionListView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "sla.subscribe"}

    @extend_schema(
        summary="One's own reports by mail", responses=SlaSubscriptionSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        found = subscriptions_of(user_of(request))
        return Response(SlaSubscriptionSerializer(found, many=True).data)

    @extend_schema(
        summary="Have a report mailed to oneself on the 1st of each month",
        request=SlaSubscriptionRequestSerializer,
        responses={201: SlaSubscriptionSerializer},
    )
    @idempotent
    def post(self, request: Request) -> Response:
        body = SlaSubscriptionRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        made = subscribe(actor=actor_of(request), **body.validated_data)
        return Response(SlaSubscriptionSerializer(made).data, status=201)


class SlaSubscriptionView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"DELETE": "sla.subscribe"}

    @extend_schema(summary="One report of one's own", responses=SlaSubscriptionSerializer)
    def get(self, request: Request, subscription_id: int) -> Response:
        found = find_subscription(subscription_id, user=user_of(request))
        return Response(SlaSubscriptionSerializer(found).data)

    @extend_schema(summary="End a report of one's own", request=None, responses={204: None})
    def delete(self, request: Request, subscription_id: int) -> Response:
        unsubscribe(subscription_id=subscription_id, actor=actor_of(request))
        return Response(status=204)


class SlaSubscriptionSendView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "sla.subscribe"}

    @extend_schema(
        summary="Have the last whole month sent at once",
        request=None,
        responses={202: OpenApiTypes.OBJECT},
    )
    @idempotent
    def post(self, request: Request, subscription_id: int) -> Response:
        job = send_report_now(subscription_id=subscription_id, actor=actor_of(request))
        return Response({"job": str(job.pk)}, status=202)


def _month(request: Request) -> str:
    return str(request.query_params.get("month", ""))


def _wanted(request: Request) -> PortfolioFilter:
    given: dict[str, Any] = {
        name: request.query_params.get(name, "") for name in ("environment", "team", "state", "q")
    }
    return PortfolioFilter(**given)


def _csv(text: str, name: str) -> HttpResponse:
    return HttpResponse(
        text,
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _pdf(data: bytes, name: str) -> HttpResponse:
    return exact_bytes(data, content_type="application/pdf", sha256=digest(data), filename=name)
