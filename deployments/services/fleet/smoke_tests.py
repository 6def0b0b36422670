"""Asking a version directly at a node, past the gateway: no caller is in it."""

from __future__ import annotations

import logging

from django.conf import settings

from console.adapters.triton import Timeouts, TritonClient
from console.errors import CovenantError
from deployments.models import Endpoint, NodeState, Placement, PlacementState
from deployments.rules.fleet import smoke_test
from deployments.services.fleet.node_files import recorded_sample

TIMEOUTS = Timeouts(control_s=2.0, infer_s=2.0)
"""Whoever asks has callers waiting: a node that takes longer than this is not well."""

log = logging.getLogger(__name__)


def answers_rightly(endpoint: Endpoint, version: int) -> bool:
    """Whether every node that has the version answers its recorded sample as at validation.

    A version without a sample has only to say that it is ready. False without any node. Talks to
    nodes: never within a transaction.
    """
    placements = list(
        Placement.objects.filter(
            state=PlacementState.READY,
            deployment__removed_at__isnull=True,
            deployment__release__environment=endpoint.environment_id,
            deployment__release__version__model=endpoint.model_id,
            deployment__release__version__number=version,
        )
        .exclude(node__state=NodeState.LOST)
        .select_related("node", "deployment__generation", "deployment__release__version__sample")
    )
    return bool(placements) and all(_answers(placement) for placement in placements)


def _answers(placement: Placement) -> bool:
    version, node = placement.deployment.release.version, placement.node
    triton_model = placement.deployment.generation.triton_model
    try:
        with TritonClient(
            node.grpc_address,
            repository_key=settings.CONFIG.triton_repository_key,
            timeouts=TIMEOUTS,
        ) as triton:
            sample = recorded_sample(version)
            if sample is None:
                return triton.model_ready(triton_model, version.number)
            answer = triton.infer(triton_model, version.number, sample["request"]["inputs"])
        smoke_test.compare(
            sample["expected"]["outputs"],
            answer.outputs,
            atol=float(sample.get("atol", 1e-5)),
            rtol=float(sample.get("rtol", 1e-4)),
        )
    except CovenantError as error:
        log.info("%s does not answer rightly on %s: %s", version, node.name, error.message)
        return False
    return True
