"""`/api/v1/endpoints/…/rollback-policy/`: when an endpoint goes down the levels by itself."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.problems import problem
from deployments.api.incident_serializers import (
    RollbackPolicyRequestSerializer,
    RollbackPolicySerializer,
)
from deployments.api.preconditions import IF_MATCH, revision_named
from deployments.rules.incidents.rollback_policies import policy_json
from deployments.selectors.incidents.rollback_policies import standing_of
from deployments.selectors.traffic.endpoints import find_endpoint
from deployments.services.incidents.rollback_policies import set_policy


class RollbackPolicyView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"PUT": "rollback_policy.change"}

    @extend_schema(
        summary="Show when an endpoint goes down the rollback levels by itself",
        responses=RollbackPolicySerializer,
    )
    def get(self, request: Request, environment: str, model: str) -> Response:
        return _answer(request, environment, model)

    @extend_schema(
        summary="Decide when an endpoint goes down the rollback levels by itself",
        request=RollbackPolicyRequestSerializer,
        responses=RollbackPolicySerializer,
        parameters=[IF_MATCH],
    )
    def put(self, request: Request, environment: str, model: str) -> Response:
        # Not behind Idempotency-Key: the same policy again changes nothing.
        if "If-Match" not in request.headers:
            return problem(
                status_code=428,
                code="precondition_required",
                detail="The revision that this policy replaces is not named.",
                hint='Send If-Match with the ETag of the policy you looked at, as If-Match: "3".',
            )
        body = RollbackPolicyRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        set_policy(
            environment=environment,
            model=model,
            expected_revision=revision_named(request),
            actor=actor_of(request),
            **body.validated_data,
        )
        return _answer(request, environment, model)


def _answer(request: Request, environment: str, model: str) -> Response:
    found = standing_of(find_endpoint(environment, model, user=user_of(request)))
    in_force = found.in_force
    body: dict[str, Any] = {
        "automatic": in_force.automatic,
        "document": policy_json(in_force.policy),
        "revision": in_force.revision,
        "changed_by": in_force.changed_by,
        "phase": found.progress.phase.value,
        "level": found.progress.level,
    }
    return Response(RollbackPolicySerializer(body).data, headers={"ETag": f'"{in_force.revision}"'})
