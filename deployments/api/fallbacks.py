"""`/api/v1/endpoints/…/fallback/`: what answers while no model may, and trying it."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from deployments.selectors.fallback.pages import FallbackPage, fallback_page
from deployments.services.trials.fallback_trials import FallbackTrial, try_fallback


class FallbackRuleSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    when = serializers.CharField(help_text="A condition (CEL) over the inputs.")
    response = serializers.DictField()
    answered = serializers.IntegerField(help_text="Rows of the last hour that it answered.")
    unjudged = serializers.IntegerField(
        help_text="Rows of the last hour for which its condition could not be judged."
    )


class FallbackSerializer(serializers.Serializer[Any]):
    mode = serializers.CharField()
    revision = serializers.IntegerField(allow_null=True, help_text="Of the contract that holds.")
    rules = FallbackRuleSerializer(many=True)
    response = serializers.DictField(allow_null=True, help_text="Comes where no rule holds.")
    response_answered = serializers.IntegerField(
        help_text="Rows of the last hour that no rule answered, where there are rules."
    )


class TriedRowSerializer(serializers.Serializer[Any]):
    rule = serializers.CharField(allow_null=True, help_text="null: the fixed response.")
    unjudged = serializers.ListField(child=serializers.CharField())
    response = serializers.DictField()


class FallbackTrialSerializer(serializers.Serializer[Any]):
    revision = serializers.IntegerField()
    rows = TriedRowSerializer(many=True)


class FallbackTrialRequestSerializer(serializers.Serializer[Any]):
    rows = serializers.ListField(
        child=serializers.DictField(),
        max_length=100,
        help_text="By input's name a value, or a list of the row's values; left out: missing.",
    )


class FallbackView(APIView):
    @extend_schema(
        summary="The fallback in force: its rules, how often each answered, its fixed response",
        responses=FallbackSerializer,
    )
    def get(self, request: Request, environment: str, model: str) -> Response:
        return Response(_answer(fallback_page(environment, model, user=user_of(request))))


class FallbackTryView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "read"}

    @extend_schema(
        summary="Which rule of the fallback would answer these rows",
        request=FallbackTrialRequestSerializer,
        responses=FallbackTrialSerializer,
    )
    def post(self, request: Request, environment: str, model: str) -> Response:
        body = FallbackTrialRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        trial = try_fallback(
            environment=environment,
            model=model,
            rows=body.validated_data["rows"],
            actor=actor_of(request),
        )
        return Response(trial_answer(trial))


def trial_answer(trial: FallbackTrial) -> dict[str, Any]:
    """The trial as the API gives it."""
    return {
        "revision": trial.revision,
        "rows": [
            {"rule": row.rule, "unjudged": list(row.unjudged), "response": dict(row.response)}
            for row in trial.rows
        ],
    }


def _answer(page: FallbackPage) -> dict[str, Any]:
    return {
        "mode": page.mode,
        "revision": page.revision,
        "rules": [
            {
                "name": rule.name,
                "when": rule.when,
                "response": dict(rule.response),
                "answered": rule.answered,
                "unjudged": rule.unjudged,
            }
            for rule in page.rules
        ],
        "response": dict(page.fallback.response) if page.fallback else None,
        "response_answered": page.fixed_answered,
    }
