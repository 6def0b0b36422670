"""A small fleet for the tests of what runs: one node on the session's Triton, one gateway."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.db import transaction

from console.actors import Actor
from console.adapters.triton import TritonClient
from console.models import Job, JobState
from console.services.job_runs import Handler, run_job
from console.stack import envoy
from deployments.adapters import repository
from deployments.models import (
    Deployment,
    Endpoint,
    Gateway,
    Node,
    Placement,
    PlacementState,
    TrafficSplit,
)
from deployments.processes.gateway import GatewayControl
from deployments.services.alerts import delivering
from deployments.services.diagnosis import running
from deployments.services.fleet import live_checks, placements, reconciles, unloads
from deployments.services.fleet import nodes as fleet
from deployments.services.fleet.deploys import generation_for
from deployments.services.gateways.registrations import register_gateway
from deployments.services.incidents import rollbacks
from deployments.services.trials import load_tests
from models_registry.models import Environment, ModelVersion
from tests import factories, stack
from tests.deployments.waiting import eventually

HANDLERS: dict[str, Handler] = {
    "deploy": placements.run_deploy,
    "unload": unloads.run_unload,
    "rollback": rollbacks.supervise_rollback,
    "deliver_alert": delivering.run_delivery,
    "reconcile": reconciles.run_reconcile,
    "verify": live_checks.run_verify,
    "diagnose": running.run_diagnose,
    "load_test": load_tests.run_load_test,
}


@dataclass(frozen=True, slots=True)
class Fleet:
    """Two environments, a node in both, and a registered gateway that listens for both."""

    staging: Environment
    production: Environment
    node: Node
    gateway: Gateway
    sam: Actor
    system: Actor

    def url(self, environment: str = "production") -> str:
        """Where the gateway takes calls."""
        return self.gateway.listeners.get(environment__name=environment).public_url


@pytest.fixture
def fleet_rows(db: None, free_port: Callable[[], int]) -> Fleet:
    """Rows alone: nobody answers at the node's addresses."""
    return _make_fleet(
        free_port, f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}", "/nowhere"
    )


@pytest.fixture
def live_fleet(
    transactional_db: None,
    triton: stack.RunningTriton,
    settings: Any,
    free_port: Callable[[], int],
) -> Iterator[Fleet]:
    """The node is the session's Triton, and its repository is that Triton's; left empty."""
    settings.CONFIG = replace(settings.CONFIG, triton_repository_key=triton.key)
    yield _make_fleet(free_port, triton.http, triton.grpc, str(triton.repository))
    with TritonClient(triton.grpc, repository_key=triton.key) as client:
        for model in {entry.name for entry in client.index()}:
            client.unload(model)
            for present in repository.present(triton.repository):
                if present.triton_model == model:
                    repository.remove_version(triton.repository, model, present.version)
            repository.remove_model(triton.repository, model)


@pytest.fixture
def run_jobs() -> Callable[..., list[Job]]:
    """Run every job that waits in the queue, in this thread, until none is left."""

    def run() -> list[Job]:
        done: list[Job] = []
        while waiting := list(Job.objects.filter(state=JobState.QUEUED).order_by("created_at")):
            for job in waiting:
                Job.objects.filter(pk=job.pk).update(not_before=job.created_at)
                run_job(str(job.pk), HANDLERS[job.kind])
                job.refresh_from_db()
                done.append(job)
        return done

    return run


@pytest.fixture
def control(
    live_fleet: Fleet, envoy_factory: Callable[..., stack.RunningEnvoy]
) -> Iterator[stack.RunningEnvoy]:
    """A gateway control in a thread, and a real Envoy that is connected to it."""
    with running_control() as port:
        admin = int(live_fleet.gateway.admin_url.rsplit(":", 1)[1])
        document = envoy.bootstrap(admin_port=admin, ads_port=port, node_id="embedded")
        running = envoy_factory(document)
        eventually(lambda: Gateway.objects.get(name="embedded").acknowledged_at is not None)
        yield running


class running_control:
    """`with running_control() as port:` runs a gateway control in a thread of its own."""

    def __init__(self, port: int = 0) -> None:
        self._address = f"127.0.0.1:{port}"
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> int:
        self._thread.start()
        assert self._started.wait(10)
        return self._control.port

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(15)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._work())
        self._loop.close()

    async def _work(self) -> None:
        self._control = GatewayControl(self._address)
        work = asyncio.create_task(self._control.run(self._stop))
        await self._control.listening.wait()
        self._started.set()
        await work


def ready_version(
    fleet: Fleet, version: ModelVersion, environment: Environment | None = None
) -> Placement:
    """Rows of a version that is ready on the fleet's node, without any Triton."""
    release = factories.make_release(version, environment or fleet.production)
    Endpoint.objects.get_or_create(model=version.model, environment=release.environment)
    with transaction.atomic():
        generation = generation_for(version)
    deployment = Deployment.objects.create(
        release=release, generation=generation, requested_by=fleet.sam.user
    )
    return Placement.objects.create(
        deployment=deployment, node=fleet.node, state=PlacementState.READY
    )


def applied(split: TrafficSplit) -> TrafficSplit:
    """Write as the gateway control would that every gateway acts on the split."""
    earlier = TrafficSplit.objects.filter(endpoint=split.endpoint, revision__lt=split.revision)
    earlier.update(state="superseded")
    TrafficSplit.objects.filter(pk=split.pk).update(state="applied", applied_at=split.created_at)
    split.refresh_from_db()
    return split


def _make_fleet(free_port: Callable[[], int], http: str, grpc: str, repository: str) -> Fleet:
    persons = factories.people()
    staging, production = (
        factories.make_environment("staging"),
        factories.make_environment("production"),
    )
    system = Actor.system("tests")
    node = fleet.register_node(
        name="local",
        http_address=http,
        grpc_address=grpc,
        repository=repository,
        environments=["staging", "production"],
        actor=system,
    )
    gateway = register_gateway(
        name="embedded",
        admin_url=f"http://127.0.0.1:{free_port()}",
        actor=system,
        listeners={
            "production": ("127.0.0.1", free_port()),
            "staging": ("127.0.0.1", free_port()),
        },
    )
    return Fleet(staging, production, node, gateway, factories.actor(persons.sam), system)
