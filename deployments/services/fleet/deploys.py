"""Asking for a release to run in its environment, and for it to go again."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from django.db import transaction
from django.utils import timezone

from console import live
from console.actors import Actor, require
from console.errors import Conflict, NotFound
from console.models import Job
from console.services import audit, jobs
from deployments.models import (
    Deployment,
    Endpoint,
    EndpointMode,
    Node,
    NodeState,
    Placement,
    PlacementState,
    ServingGeneration,
    SplitCause,
)
from deployments.rules.fleet import generations
from deployments.rules.traffic import splits
from deployments.services.traffic.splits import (
    locked_endpoint,
    need_reason,
    wanted_of,
    write_split,
)
from models_registry.models import ModelVersion, RegisteredModel, Release
from models_registry.services.artifacts import read_bytes
from models_registry.services.release_checks import stored_bytes, verify_release

UNDER_WAY = (PlacementState.PENDING, PlacementState.PLACING, PlacementState.LOADING)
READ_AT_ONCE_BYTES = 256 * 1024**2
"""Files that are read while somebody waits for the answer."""

ENDED = (PlacementState.UNLOADED, PlacementState.FAILED)


def deploy_release(
    *, release_id: uuid.UUID, actor: Actor, nodes: Sequence[str] | None = None
) -> Deployment:
    """Have an approved release placed on nodes of its environment; one job for each node.

    Without `nodes`, on every node that takes placements. Nodes where it is placed already or under
    way are left alone, so asking twice is asking once; where it failed it is tried anew.

    Raises Conflict when the release may not be deployed (not approved, no contract in force, bytes
    that differ from what was signed) or no node takes it, NotFound, NotAllowed.
    """
    require(actor, "deployment.create")
    with transaction.atomic():
        release = (
            Release.objects.visible_to(actor.user)
            .select_for_update(of=("self",))
            .select_related("version__model", "environment", "contract")
            .filter(pk=release_id)
            .first()
        )
        if release is None:
            raise NotFound(
                f"There is no release {release_id}.", hint="Look at the model's releases."
            )
        require(actor, "deployment.create", release.version.model.team_id)
        # A node's worker reads every byte again before it places one; gigabytes are left to it.
        verify_release(release, read_files=stored_bytes(release) <= READ_AT_ONCE_BYTES)
        chosen = _nodes(release, nodes)
        deployment, created = _deployment(release, actor)
        Endpoint.objects.get_or_create(model=release.version.model, environment=release.environment)
        started = [node.name for node in chosen if _place(deployment, node, actor)]
        if started:
            audit.record(
                actor=actor,
                action="deployment.create",
                subject=str(release.version),
                subject_url=f"/deployments/{deployment.pk}/",
                after={
                    "deployment": str(deployment.pk),
                    "release": str(release.pk),
                    "environment": release.environment.name,
                    "triton_model": deployment.generation.triton_model,
                    "nodes": started,
                    "again": not created,
                },
            )
            _tell(deployment)
    return deployment


def remove_deployment(
    *, deployment: Deployment, reason: str, actor: Actor, move_traffic: bool = False
) -> list[Job]:
    """Drain a version in its environment and unload it from every node; gives the jobs.

    With `move_traffic` its share goes to the other versions in proportion, first. Asking twice
    gives the same jobs.

    Raises Conflict `has_traffic` while callers are sent to it, `deploy_under_way`, NotAllowed.
    """
    require(actor, "deployment.remove")
    need_reason(reason)
    release = deployment.release
    with transaction.atomic():
        endpoint = locked_endpoint(
            release.environment.name, release.version.model.name, actor, "deployment.remove"
        )
        deployment = (
            Deployment.objects.select_for_update(of=("self",))
            .select_related("release__version__model", "release__environment", "generation")
            .get(pk=deployment.pk)
        )
        if deployment.removal_requested_at is not None:
            return _unload_jobs(deployment)
        placements = list(
            deployment.placements.select_for_update(of=("self",)).select_related("node")
        )
        if any(placement.state in UNDER_WAY for placement in placements):
            raise Conflict(
                f"{release.version} is still being deployed to {release.environment.name}.",
                code="deploy_under_way",
                hint="Wait for its deploy job, or cancel that first.",
            )
        _leave_split(endpoint, release.version.number, reason, actor, move_traffic=move_traffic)
        started = [_unload(deployment, p, actor) for p in placements if p.state not in ENDED]
        now = timezone.now()
        deployment.removal_requested_at = now
        deployment.removed_at = None if started else now
        deployment.save(update_fields=["removal_requested_at", "removed_at"])
        audit.record(
            actor=actor,
            action="deployment.remove",
            subject=str(release.version),
            reason=reason,
            subject_url=f"/deployments/{deployment.pk}/",
            before={"environment": release.environment.name},
            after={"deployment": str(deployment.pk), "jobs": [str(job.pk) for job in started]},
        )
        _tell(deployment)
    return started


def generation_for(version: ModelVersion) -> ServingGeneration:
    """The Triton model that a version joins: one with an equal configuration, or a new one.

    Belongs inside a transaction; the model's row is locked, so that two deploys do not both make
    a generation.
    """
    model = RegisteredModel.objects.select_for_update().get(pk=version.model_id)
    if version.config is None:
        raise Conflict(f"{version} has no rendered configuration.", code="not_validated")
    identity = generations.config_identity(read_bytes(version.config).decode())
    known = ServingGeneration.objects.filter(model=model)
    if found := known.filter(config_sha256=identity).first():
        return found
    number = generations.next_generation(
        model.name,
        list(known.values_list("number", flat=True)),
        set(
            ServingGeneration.objects.filter(triton_model__startswith=model.name).values_list(
                "triton_model", flat=True
            )
        )
        | set(
            RegisteredModel.objects.filter(name__startswith=f"{model.name}_g").values_list(
                "name", flat=True
            )
        ),
    )
    return ServingGeneration.objects.create(
        model=model,
        number=number,
        config_sha256=identity,
        triton_model=generations.triton_model_name(model.name, number),
    )


def _nodes(release: Release, names: Sequence[str] | None) -> list[Node]:
    known = Node.objects.filter(environments=release.environment).order_by("name")
    if names is not None:
        found = {node.name: node for node in known.filter(name__in=names)}
        if missing := sorted(set(names) - set(found)):
            raise NotFound(
                f"{release.environment.name} has no node {missing[0]}.",
                hint="Look at the nodes of that environment.",
            )
        cordoned = [node for node in found.values() if node.cordon_reason]
        if cordoned:
            raise Conflict(
                f"Node {cordoned[0].name} is cordoned: {cordoned[0].cordon_reason}.",
                code="node_cordoned",
                hint="Uncordon it, or name other nodes.",
            )
        return list(found.values())
    usable = [node for node in known if not node.cordon_reason]
    # A lost node gets its placements too when there is no other: the job waits for it.
    chosen = [node for node in usable if node.state != NodeState.LOST] or usable
    if not chosen:
        raise Conflict(
            f"No node of {release.environment.name} takes new placements.",
            code="no_node",
            hint="Register a node for this environment, or uncordon one.",
        )
    return chosen


def _deployment(release: Release, actor: Actor) -> tuple[Deployment, bool]:
    existing = (
        Deployment.objects.select_for_update(of=("self",))
        .select_related("generation")
        .filter(release=release, removed_at__isnull=True)
        .first()
    )
    if existing is None:
        generation = generation_for(release.version)
        made = Deployment.objects.create(
            release=release, generation=generation, requested_by=actor.user
        )
        return made, True
    if existing.removal_requested_at is not None:
        raise Conflict(
            f"{release.version} is being removed from {release.environment.name}.",
            code="removal_under_way",
            hint="Wait for its unload jobs, then deploy it again.",
        )
    return existing, False


def _place(deployment: Deployment, node: Node, actor: Actor) -> bool:
    placement = (
        Placement.objects.select_for_update(of=("self",))
        .filter(deployment=deployment, node=node)
        .first()
    )
    if placement is not None and placement.state not in ENDED:
        return False
    previous = placement.job_id if placement else None
    if placement is not None:
        placement.delete()
    release = deployment.release
    job = jobs.enqueue(
        kind="deploy",
        queue=node.queue,
        actor=actor,
        subject=f"{release.version} → {release.environment.name} on {node.name}",
        subject_url=f"/deployments/{deployment.pk}/",
        arguments={"deployment": str(deployment.pk), "node": node.name},
        idempotency_key=f"deploy:{deployment.pk}:{node.pk}:{previous or 'first'}",
    )
    Placement.objects.create(deployment=deployment, node=node, job=job)
    return True


def _unload(deployment: Deployment, placement: Placement, actor: Actor) -> Job:
    release, node = deployment.release, placement.node
    job = jobs.enqueue(
        kind="unload",
        queue=node.queue,
        actor=actor,
        subject=f"{release.version} → {release.environment.name} on {node.name}",
        subject_url=f"/deployments/{deployment.pk}/",
        arguments={"deployment": str(deployment.pk), "node": node.name},
        idempotency_key=f"unload:{placement.pk}",
    )
    Placement.objects.filter(pk=placement.pk).update(job=job)
    return job


def _unload_jobs(deployment: Deployment) -> list[Job]:
    placements = deployment.placements.select_related("job")
    return [p.job for p in placements if p.job is not None and p.job.kind == "unload"]


def _leave_split(
    endpoint: Endpoint, number: int, reason: str, actor: Actor, *, move_traffic: bool
) -> None:
    """See that no caller is sent to the version any more, or refuse."""
    now = wanted_of(endpoint.current)
    named = any(int(rule["version"]) == number for rule in now.header_rules) or (
        now.mirror is not None and int(now.mirror["version"]) == number
    )
    serving = now.mode == EndpointMode.NORMAL
    share = now.weights.get(number, 0)
    if not share and not named:
        return
    if serving and not move_traffic:
        raise Conflict(
            f"Callers of {endpoint} are sent to v{number}: it has {share / 100:g} % of the traffic"
            f"{' and a header rule or mirror' if named else ''}.",
            code="has_traffic",
            hint="Move its traffic to another version first.",
        )
    weights = splits.redistribute(now.weights, [number])
    if serving and not weights:
        raise Conflict(
            f"v{number} is the only version of {endpoint} that has traffic.",
            code="has_traffic",
            hint="Move the traffic to another version, or switch the endpoint to fallback or open.",
        )
    wanted = replace(
        now,
        weights=weights,
        header_rules=[rule for rule in now.header_rules if int(rule["version"]) != number],
        testers=[tester for tester in now.testers if int(tester["version"]) != number],
        mirror=None if now.mirror and int(now.mirror["version"]) == number else now.mirror,
        probe=0,
    )
    write_split(
        endpoint, wanted, cause=SplitCause.UNLOAD, reason=reason, actor=actor, action="split.unload"
    )


def _tell(deployment: Deployment) -> None:
    release = deployment.release
    model = release.version.model.name
    event = {"deployment": str(deployment.pk), "version": release.version.number}
    for topic in (
        f"endpoint:{release.environment.name}/{model}",
        f"model:{model}",
        f"version:{model}/{release.version.number}",
        f"release:{release.pk}",
    ):
        live.publish(topic, "placement.changed", event)
