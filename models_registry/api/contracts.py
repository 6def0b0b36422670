"""`/api/v1/models/{model}/contracts/`"""

from __future__ import annotations

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
from console.errors import FieldError, Invalid
from console.rules.canonical import digest
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE
from models_registry.api.content import AnyAccept, DocumentParser, exact_bytes
from models_registry.api.requests import EnvelopeSerializer
from models_registry.api.serializers import (
    ContractSerializer,
    ContractSummarySerializer,
    DifferencesSerializer,
    SignedSerializer,
)
from models_registry.models import ServiceContract
from models_registry.rules import contract_document
from models_registry.rules.contract_changes import breaking_changes
from models_registry.selectors.catalog import find_model
from models_registry.selectors.contracts import contract_list, differences, find_contract
from models_registry.services.contracts import (
    contract_bundle,
    propose_contract,
    sign_contract,
    withdraw_contract,
)


class ContractListView(ListAPIView[ServiceContract]):
    serializer_class = ContractSummarySerializer
    required_actions: ClassVar[dict[str, str]] = {"POST": "contract.propose"}
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-revision",)
    parser_classes = (DocumentParser,)
    queryset = ServiceContract.objects.none()

    @extend_schema(
        summary="List a model's contracts, newest first",
        parameters=[OpenApiParameter("state", str)],
    )
    def get(self, request: Request, name: str) -> Response:
        find_model(name, user=user_of(request))
        page = self.paginate_queryset(
            contract_list(name, state=request.query_params.get("state", ""), user=user_of(request))
        )
        return self.get_paginated_response(ContractSummarySerializer(page, many=True).data)

    @extend_schema(
        summary="Propose a contract: the document itself, in JSON or YAML",
        description="Every field is described by the JSON Schema at /api/v1/contract-schema/.",
        parameters=[
            OpenApiParameter("note", str, description="Why it is proposed."),
            OpenApiParameter(
                "acknowledge_breaking",
                bool,
                description="That it breaks callers of the contract that holds is meant.",
            ),
        ],
        request={
            "application/json": OpenApiTypes.OBJECT,
            "application/yaml": OpenApiTypes.OBJECT,
        },
        responses={201: ContractSerializer},
    )
    @idempotent
    def post(self, request: Request, name: str) -> Response:
        media: contract_document.Media = (
            "yaml" if "yaml" in (request.content_type or "") else "auto"
        )
        contract = propose_contract(
            model=find_model(name, user=user_of(request)),
            document=request.data if isinstance(request.data, bytes) else b"",
            media=media,
            note=request.query_params.get("note", ""),
            acknowledge_breaking=request.query_params.get("acknowledge_breaking", "").lower()
            in ("1", "true"),
            actor=actor_of(request),
        )
        shown = find_contract(name, contract.revision, user=user_of(request))
        return Response(ContractSerializer(shown).data, status.HTTP_201_CREATED)


class ContractSchemaView(APIView):
    @extend_schema(
        summary="The JSON Schema (2020-12) of a contract document", responses=OpenApiTypes.OBJECT
    )
    def get(self, request: Request) -> Response:
        return Response(contract_document.schema())


class ContractView(APIView):
    @extend_schema(summary="Show a contract with its signatures", responses=ContractSerializer)
    def get(self, request: Request, name: str, revision: int) -> Response:
        return Response(
            ContractSerializer(find_contract(name, revision, user=user_of(request))).data
        )


class ContractPayloadView(APIView):
    content_negotiation_class = AnyAccept

    @extend_schema(
        summary="The exact bytes to sign",
        responses={(200, CONTRACT_PAYLOAD_TYPE): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, name: str, revision: int) -> HttpResponse:
        contract = find_contract(name, revision, user=user_of(request))
        return exact_bytes(
            bytes(contract.payload),
            content_type=CONTRACT_PAYLOAD_TYPE,
            sha256=contract.digest,
            filename=f"{name}-contract-{revision}.json",
        )


class ContractDiffView(APIView):
    @extend_schema(
        summary="What changes against another revision, in words",
        parameters=[OpenApiParameter("against", int, description="By default what it replaces.")],
        responses=DifferencesSerializer,
    )
    def get(self, request: Request, name: str, revision: int) -> Response:
        asked = request.query_params.get("against", "")
        if asked and not (asked.isdecimal() and len(asked) < 10):
            raise Invalid(
                f"against={asked[:20]} is not a revision.",
                code="bad_revision",
                hint="Give a whole number.",
                errors=(FieldError("/against", "is not a whole number"),),
            )
        other, changes = differences(
            find_contract(name, revision, user=user_of(request)),
            against=int(asked) if asked else None,
            user=user_of(request),
        )
        body = {
            "against": other.revision if other else None,
            "breaking": len(breaking_changes(changes)),
            "changes": changes,
        }
        return Response(DifferencesSerializer(body).data)


class ContractSignatureView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "contract.sign"}

    @extend_schema(
        summary="Sign for one's seat", request=EnvelopeSerializer, responses={201: SignedSerializer}
    )
    @idempotent
    def post(self, request: Request, name: str, revision: int) -> Response:
        body = EnvelopeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        signature = sign_contract(
            contract=find_contract(name, revision, user=user_of(request)),
            envelope=body.validated_data["envelope"],
            actor=actor_of(request),
        )
        return Response(SignedSerializer(signature).data, status.HTTP_201_CREATED)


class ContractWithdrawView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "contract.withdraw"}

    @extend_schema(
        summary="Withdraw a proposal", request=ReasonSerializer, responses=ContractSerializer
    )
    @idempotent
    def post(self, request: Request, name: str, revision: int) -> Response:
        body = ReasonSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        withdraw_contract(
            contract=find_contract(name, revision, user=user_of(request)),
            reason=body.validated_data["reason"],
            actor=actor_of(request),
        )
        return Response(
            ContractSerializer(find_contract(name, revision, user=user_of(request))).data
        )


class ContractBundleView(APIView):
    content_negotiation_class = AnyAccept

    @extend_schema(summary="Everything that an offline check needs", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, name: str, revision: int) -> HttpResponse:
        data = contract_bundle(find_contract(name, revision, user=user_of(request)))
        return exact_bytes(
            data,
            content_type="application/json",
            sha256=digest(data),
            filename=f"{name}-contract-{revision}.bundle.json",
        )
