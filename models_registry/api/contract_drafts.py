"""`/api/v1/models/{model}/contracts/drafts/` and the templates that drafts start from."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.api.idempotency import idempotent
from console.api.problems import problem
from console.errors import FieldError, Invalid
from models_registry.api.requests import (
    ChangeDraftSerializer,
    ProposeDraftSerializer,
    StartDraftSerializer,
)
from models_registry.api.serializers import ContractSerializer
from models_registry.models import ContractDraft
from models_registry.rules.contract_reading import read
from models_registry.rules.contract_templates import find_template, templates_for
from models_registry.selectors.catalog import find_model
from models_registry.selectors.contract_drafts import draft_list, find_draft
from models_registry.selectors.contracts import find_contract
from models_registry.services.contract_drafts import (
    StaleDraft,
    change_draft,
    create_draft,
    discard_draft,
    propose_draft,
)
from models_registry.services.contract_starts import Start, starting_text

IF_MATCH = OpenApiParameter(
    "If-Match", str, location="header", description='The edition that was changed, as "3".'
)


class DraftSummarySerializer(serializers.ModelSerializer[ContractDraft]):
    model = serializers.CharField(source="model.name")
    state = serializers.SerializerMethodField(help_text="open, proposed or discarded")
    proposed_as = serializers.IntegerField(source="proposed_as.revision", default=None)
    created_by = serializers.CharField(source="created_by.username")
    changed_by = serializers.CharField(source="changed_by.username")

    class Meta:
        model = ContractDraft
        fields: ClassVar[list[str]] = [
            "id",
            "model",
            "title",
            "edition",
            "state",
            "proposed_as",
            "created_by",
            "created_at",
            "changed_by",
            "changed_at",
        ]

    def get_state(self, draft: ContractDraft) -> str:
        if draft.proposed_as is not None:
            return "proposed"
        return "open" if draft.discarded_at is None else "discarded"


class DraftFaultSerializer(serializers.Serializer[Any]):
    pointer = serializers.CharField()
    line = serializers.IntegerField(help_text="Line of the text, from 1.")
    detail = serializers.CharField()


class DraftSerializer(DraftSummarySerializer):
    text = serializers.CharField(help_text="YAML; it may be wrong.")
    faults = serializers.SerializerMethodField(help_text="Why it could not be proposed yet.")

    class Meta(DraftSummarySerializer.Meta):
        fields: ClassVar[list[str]] = [*DraftSummarySerializer.Meta.fields, "text", "faults"]

    def get_faults(self, draft: ContractDraft) -> list[dict[str, Any]]:
        model = draft.model
        found = read(draft.text, model=model.name, risk_class=model.risk_class, now=timezone.now())
        return [dict(DraftFaultSerializer(fault).data) for fault in found.faults]


class TemplateSerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    title = serializers.CharField()
    summary = serializers.CharField()
    risk_classes = serializers.ListField(child=serializers.CharField())
    fits = serializers.BooleanField(help_text="Whether it is made for the model's risk class.")


class FilledTemplateSerializer(TemplateSerializer):
    text = serializers.CharField(help_text="YAML, filled from the version.")


class DraftListView(ListAPIView[ContractDraft]):
    serializer_class = DraftSummarySerializer
    required_actions: ClassVar[dict[str, str]] = {"POST": "contract.draft"}
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-changed_at", "-pk")
    queryset = ContractDraft.objects.none()

    @extend_schema(
        summary="List a model's drafts of contracts, changed last first",
        parameters=[
            OpenApiParameter("state", str, enum=["open", "proposed", "discarded", "all"]),
        ],
    )
    def get(self, request: Request, name: str) -> Response:
        user = actor_of(request).user
        find_model(name, user=user)
        state = request.query_params.get("state", "open")
        page = self.paginate_queryset(draft_list(user, name, state=state))
        return self.get_paginated_response(DraftSummarySerializer(page, many=True).data)

    @extend_schema(
        summary="Start a draft: from a text, a template, a revision, a version, or blank",
        request=StartDraftSerializer,
        responses={201: DraftSerializer},
    )
    @idempotent
    def post(self, request: Request, name: str) -> Response:
        body = StartDraftSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        wanted, actor = body.validated_data, actor_of(request)
        model = find_model(name, user=actor.user)
        text = wanted["text"]
        if text is None:
            start = Start(wanted["template"], wanted["revision"], wanted["version"])
            text = starting_text(model, start)
        draft = create_draft(model=model, title=wanted["title"], text=text, actor=actor)
        return _answer(find_draft(actor.user, name, draft.pk), status.HTTP_201_CREATED)


class DraftView(APIView):
    required_actions: ClassVar[dict[str, str]] = {
        "PUT": "contract.draft",
        "DELETE": "contract.draft",
    }

    @extend_schema(summary="Show a draft with its faults", responses=DraftSerializer)
    def get(self, request: Request, name: str, draft_id: int) -> Response:
        return _answer(find_draft(actor_of(request).user, name, draft_id))

    @extend_schema(
        summary="Save a draft's text, right or wrong",
        description="412 when somebody saved another edition since: `current` is how it stands.",
        parameters=[IF_MATCH],
        request=ChangeDraftSerializer,
        responses=DraftSerializer,
    )
    def put(self, request: Request, name: str, draft_id: int) -> Response:
        actor = actor_of(request)
        draft = find_draft(actor.user, name, draft_id)
        body = ChangeDraftSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        if "If-Match" not in request.headers:
            return problem(
                status_code=428,
                code="precondition_required",
                detail="The edition that was changed is not named.",
                hint='Send If-Match with the ETag of the draft you read, as If-Match: "3".',
            )
        try:
            change_draft(
                draft=draft,
                edition=_edition(request),
                text=body.validated_data["text"],
                title=body.validated_data.get("title"),
                actor=actor,
            )
        except StaleDraft as error:
            return _stale(error)
        return _answer(find_draft(actor.user, name, draft_id))

    @extend_schema(
        summary="Discard a draft",
        parameters=[OpenApiParameter("reason", str)],
        responses={204: None},
    )
    def delete(self, request: Request, name: str, draft_id: int) -> Response:
        actor = actor_of(request)
        discard_draft(
            draft=find_draft(actor.user, name, draft_id),
            reason=request.query_params.get("reason", "")[:500],
            actor=actor,
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


class DraftProposeView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "contract.propose"}

    @extend_schema(
        summary="Propose a draft: it becomes the model's next revision, once",
        parameters=[IF_MATCH],
        request=ProposeDraftSerializer,
        responses={201: ContractSerializer},
    )
    @idempotent
    def post(self, request: Request, name: str, draft_id: int) -> Response:
        body = ProposeDraftSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor = actor_of(request)
        draft = find_draft(actor.user, name, draft_id)
        edition = _edition(request) if "If-Match" in request.headers else draft.edition
        try:
            contract = propose_draft(
                draft=draft, edition=edition, text=None, actor=actor, **body.validated_data
            )
        except StaleDraft as error:
            return _stale(error)
        shown = find_contract(name, contract.revision, user=actor.user)
        return Response(ContractSerializer(shown).data, status.HTTP_201_CREATED)


class TemplateListView(APIView):
    @extend_schema(
        summary="Contracts to start from, those for the model's risk class first",
        responses=TemplateSerializer(many=True),
    )
    def get(self, request: Request, name: str) -> Response:
        model = find_model(name, user=actor_of(request).user)
        shown = [_template(one.key, model.risk_class) for one in templates_for(model.risk_class)]
        return Response(TemplateSerializer(shown, many=True).data)


class TemplateView(APIView):
    @extend_schema(
        summary="A template, filled from a version of the model",
        parameters=[OpenApiParameter("version", int, description="The newest validated one.")],
        responses=FilledTemplateSerializer,
    )
    def get(self, request: Request, name: str, key: str) -> Response:
        model = find_model(name, user=actor_of(request).user)
        asked = request.query_params.get("version", "")
        if asked and not (asked.isdecimal() and len(asked) < 10):
            raise Invalid(
                f"version={asked[:20]} is not the number of a version.",
                code="bad_version",
                hint="Give a whole number.",
                errors=(FieldError("/version", "is not a whole number"),),
            )
        shown = _template(key, model.risk_class)
        start = Start(template=key, version=int(asked) if asked else None)
        return Response(
            FilledTemplateSerializer({**shown, "text": starting_text(model, start)}).data
        )


def _template(key: str, risk_class: str) -> dict[str, Any]:
    template = find_template(key)
    return {
        "key": template.key,
        "title": template.title,
        "summary": template.summary,
        "risk_classes": sorted(template.risk_classes),
        "fits": risk_class in template.risk_classes,
    }


def _answer(draft: ContractDraft, code: int = status.HTTP_200_OK) -> Response:
    return Response(DraftSerializer(draft).data, code, headers={"ETag": f'"{draft.edition}"'})


def _stale(error: StaleDraft) -> Response:
    response = problem(
        status_code=error.status, code=error.code, detail=error.message, hint=error.hint
    )
    response.data = {**response.data, "current": DraftSerializer(error.current).data}
    return response


def _edition(request: Request) -> int:
    """The edition that If-Match names."""
    given = request.headers.get("If-Match", "").strip().removeprefix("W/").strip('"')
    if not given.isascii() or not given.isdecimal() or len(given) > 9:
        raise Invalid(
            f"If-Match names no edition: {given[:40]!r}.",
            code="invalid_precondition",
            hint='Send the ETag of the draft, as If-Match: "3".',
        )
    return int(given)
