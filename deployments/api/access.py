"""`/api/v1/endpoints/…/access/`: who may call an endpoint, and how often."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.problems import problem
from deployments.api.preconditions import revision_named
from deployments.models import AccessPolicy
from deployments.rules.access.policies import policy_document
from deployments.rules.access.rules import Validation
from deployments.selectors.access.policies import policy_at
from deployments.services.access.policies import set_access_policy


class AuthenticationRulesSerializer(serializers.Serializer[Any]):
    required = serializers.BooleanField()  # type: ignore[assignment] # a field's own name
    api_key = serializers.BooleanField()
    issuers = serializers.ListField(child=serializers.CharField())


class AccessListSerializer(serializers.Serializer[Any]):
    callers = serializers.ListField(child=serializers.CharField())
    networks = serializers.ListField(child=serializers.CharField(), help_text="CIDR blocks.")


class RateLimitSerializer(serializers.Serializer[Any]):
    """A token bucket, in each gateway instance by itself."""

    requests = serializers.IntegerField(help_text="Tokens that come in each `per`.")
    per = serializers.CharField(help_text="100ms to 24h, such as 1s or 10m.")
    burst = serializers.IntegerField(help_text="Tokens that are kept at most.")


class RateLimitsSerializer(serializers.Serializer[Any]):
    per_caller = RateLimitSerializer(allow_null=True)
    total = RateLimitSerializer(allow_null=True)


class RequestLimitsSerializer(serializers.Serializer[Any]):
    max_body_bytes = serializers.IntegerField(allow_null=True)
    timeout_ms = serializers.IntegerField(allow_null=True)
    max_concurrent = serializers.IntegerField(allow_null=True)


class RetryRulesSerializer(serializers.Serializer[Any]):
    onto_baseline = serializers.BooleanField()


class PolicyDocumentSerializer(serializers.Serializer[Any]):
    """An access policy, whole. Written, every field may be left out."""

    authentication = AuthenticationRulesSerializer()
    allow = AccessListSerializer()
    deny = AccessListSerializer()
    rate_limits = RateLimitsSerializer()
    limits = RequestLimitsSerializer()
    retries = RetryRulesSerializer()
    validation = serializers.ChoiceField(choices=[one.value for one in Validation])


class AccessPolicySerializer(serializers.Serializer[Any]):
    revision = serializers.IntegerField(help_text="0: nobody has set a policy here.")
    policy = PolicyDocumentSerializer()
    changed_by = serializers.CharField(allow_blank=True)
    changed_at = serializers.DateTimeField(allow_null=True)


class AccessPolicyRequestSerializer(serializers.Serializer[Any]):
    policy = serializers.DictField()
    reason = serializers.CharField(max_length=2000)


class AccessPolicyView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"PUT": "access.change"}

    @extend_schema(summary="Show who may call an endpoint", responses=AccessPolicySerializer)
    def get(self, request: Request, environment: str, model: str) -> Response:
        _endpoint, policy, rules = policy_at(environment, model, user=user_of(request))
        return _answer(policy, policy_document(rules))

    @extend_schema(
        summary="Say who may call an endpoint, and how often",
        request=AccessPolicyRequestSerializer,
        responses=AccessPolicySerializer,
        parameters=[
            OpenApiParameter(
                "If-Match",
                str,
                location="header",
                description='The revision that is replaced, as "3"; "0" for the first; or *.',
            )
        ],
    )
    def put(self, request: Request, environment: str, model: str) -> Response:
        if "If-Match" not in request.headers:
            return problem(
                status_code=428,
                code="precondition_required",
                detail="The revision that this policy replaces is not named.",
                hint='Send If-Match with the ETag of the policy you looked at, as If-Match: "3".',
            )
        body = AccessPolicyRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        policy = set_access_policy(
            environment=environment,
            model=model,
            expected_revision=revision_named(request),
            actor=actor_of(request),
            **body.validated_data,
        )
        return _answer(policy, policy.document)


def _answer(policy: AccessPolicy | None, document: dict[str, Any]) -> Response:
    revision = policy.revision if policy else 0
    return Response(
        {
            "revision": revision,
            "policy": document,
            "changed_by": policy.changed_by.username if policy else "",
            "changed_at": policy.changed_at if policy else None,
        },
        headers={"ETag": f'"{revision}"'},
    )
