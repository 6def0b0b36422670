"""The embedded stack's services: what each is, what it waits for, when it is ready."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from console.env import ROOT, Config, kept_secret
from console.stack import envoy, postgres, triton, valkey, web
from console.stack.errors import ProgramMissing, StackError
from console.stack.process import Command
from console.stack.service import Service

DATABASES = ("postgres", "valkey")


def build(config: Config, only: Sequence[str] = ()) -> list[Service]:
    """The services of this configuration in the order of need, or just those named in `only`.

    Raises StackError that names every program that is missing, before anything starts.
    """
    makers: dict[str, Callable[[Config], Service]] = {}
    if config.embedded_database:
        makers["postgres"] = _postgres
    if config.embedded_redis:
        makers["valkey"] = _valkey
    makers["migrate"] = _migrate
    if config.embedded_triton:
        makers["triton"] = _triton
    if config.embedded_gateway:
        makers |= {"gateway": _gateway, "envoy": _envoy}
    if config.edge == "embedded":
        makers["edge"] = _edge
    makers |= {"control": _worker_control, "export": _worker_export, "node.local": _worker_node}
    makers |= {"beat": _beat, "collect": _collect, "traffic": _traffic, "web": _web}
    unknown = sorted(set(only) - set(makers))
    if unknown:
        raise StackError(f"There is no service {unknown[0]} here. There are: {', '.join(makers)}.")
    services: list[Service] = []
    missing: list[str] = []
    for name, make in makers.items():
        if only and name not in only:
            continue
        try:
            services.append(make(config))
        except ProgramMissing as error:
            missing.append(str(error))
    if missing:
        raise StackError("\n".join(missing))
    return _only_known_needs(services)


def _only_known_needs(services: list[Service]) -> list[Service]:
    """Drop needs for services that stand elsewhere (an external database, say)."""
    names = {service.name for service in services}
    return [
        replace(service, after=tuple(name for name in service.after if name in names))
        for service in services
    ]


def _postgres(config: Config) -> Service:
    folder, port = config.home / "postgres", config.ports.postgres
    programs = postgres.find(folder)

    def command() -> Command:
        password = kept_secret(config.home, "postgres_password")
        postgres.prepare(programs, folder, password=password)
        return postgres.server(programs, folder, port=port)

    return Service(
        name="postgres",
        command=command,
        is_ready=lambda child: postgres.is_ready(port),
        ports=(port,),
        stop_signal=signal.SIGINT,
        stop_seconds=20,
    )


def _valkey(config: Config) -> Service:
    folder, port = config.home / "valkey", config.ports.valkey
    program = valkey.find()
    password = kept_secret(config.home, "valkey_password")
    return Service(
        name="valkey",
        command=lambda: valkey.server(program, folder, port=port, password=password),
        is_ready=lambda child: valkey.is_ready(port, password),
        ports=(port,),
    )


def _migrate(config: Config) -> Service:
    return Service(
        name="migrate",
        command=lambda: _python(config, "-m", "console.stack.migrate"),
        after=DATABASES,
        one_shot=True,
        ready_seconds=300,
    )


def _triton(config: Config) -> Service:
    ports, folder = config.ports, config.home / "triton"
    programs = triton.find()

    def command() -> Command:
        return triton.server(
            programs,
            backends=triton.build_backends(programs, folder),
            repository=config.triton_repository,
            http=ports.triton_http,
            grpc=ports.triton_grpc,
            metrics=ports.triton_metrics,
            key=config.triton_repository_key,
        )

    return Service(
        name="triton",
        command=command,
        is_ready=lambda child: triton.is_ready(ports.triton_http),
        ports=(ports.triton_http, ports.triton_grpc, ports.triton_metrics),
    )


def _gateway(config: Config) -> Service:
    port = config.ports.ads
    return Service(
        name="gateway",
        command=lambda: _manage(config, "gateway"),
        is_ready=lambda child: _accepts(port),
        after=("migrate",),
        ports=(port,),
    )


def _envoy(config: Config) -> Service:
    ports, program = config.ports, envoy.find()
    document = envoy.bootstrap(admin_port=ports.gateway_admin, ads_port=ports.ads)
    return Service(
        name="envoy",
        command=lambda: envoy.server(program, config.home / "envoy", document),
        is_ready=lambda child: envoy.is_ready(ports.gateway_admin),
        after=("gateway",),
        ports=(ports.gateway_production, ports.gateway_staging, ports.gateway_admin),
        stop_seconds=3,
    )


def _edge(config: Config) -> Service:
    port = config.ports.edge
    return Service(
        name="edge",
        command=lambda: _manage(config, "edge"),
        is_ready=lambda child: web.status(f"http://127.0.0.1:{port}/healthz") == 200,
        after=("migrate",),
        ports=(port,),
    )


def _worker(config: Config, name: str, queue: str, concurrency: int) -> Service:
    """A Celery worker. The job's lease, not the worker, brings back what a stop cut short."""
    return Service(
        name=name,
        command=lambda: _celery(
            config,
            "worker",
            f"--hostname={name}@{config.port_base}",
            f"--queues={queue}",
            "--pool=threads",
            f"--concurrency={concurrency}",
            "--without-gossip",
            "--without-mingle",
        ),
        is_ready=lambda child: child.has_logged(" ready."),
        after=("migrate",),
        stop_seconds=6,
    )


def _worker_control(config: Config) -> Service:
    return _worker(config, "control", "control", 4)


def _worker_export(config: Config) -> Service:
    return _worker(config, "export", "export", 1)


def _worker_node(config: Config) -> Service:
    return _worker(config, "node.local", "node.local", 2)


def _beat(config: Config) -> Service:
    schedule = config.home / "run" / "beat-schedule"
    return Service(
        name="beat",
        command=lambda: _celery(config, "beat", f"--schedule={schedule}", "--pidfile="),
        is_ready=lambda child: child.has_logged("beat: Starting"),
        after=("migrate",),
    )


def _collect(config: Config) -> Service:
    return Service(
        name="collect",
        command=lambda: _manage(config, "collect"),
        is_ready=lambda child: child.has_logged("the collector reads"),
        after=("migrate",),
    )


def _traffic(config: Config) -> Service:
    return Service(
        name="traffic",
        command=lambda: _manage(config, "traffic"),
        is_ready=lambda child: child.has_logged("the traffic control is active"),
        after=("migrate",),
    )


def _web(config: Config) -> Service:
    port = config.ports.web

    def command() -> Command:
        # Static files come from the source folders; the collected ones' folder must only exist.
        (config.home / "static").mkdir(exist_ok=True)
        return _python(
            config,
            *("-m", "uvicorn", "console.asgi:application"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--loop", "uvloop", "--http", "httptools", "--lifespan", "off", "--no-access-log"),
            *("--timeout-graceful-shutdown", "3"),
        )

    return Service(
        name="web",
        command=command,
        is_ready=lambda child: web.status(f"http://127.0.0.1:{port}/readyz") == 200,
        after=("migrate",),
        ports=(port,),
    )


def _manage(config: Config, *arguments: str) -> Command:
    return _python(config, str(ROOT / "manage.py"), *arguments)


def _celery(config: Config, *arguments: str) -> Command:
    return _python(config, "-m", "celery", "-A", "console", *arguments, "--loglevel=INFO")


def _python(config: Config, *arguments: str) -> Command:
    """One of our own programs. Killed with the supervisor: what it did is safe in the database."""
    environment = {
        **os.environ,
        "COVENANT_HOME": str(config.home),
        "COVENANT_PORT_BASE": str(config.port_base),
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        # One arena for every two threads is glibc's idea of a small process; two are enough.
        "MALLOC_ARENA_MAX": "2",
    }
    return Command(
        argv=[sys.executable, *arguments],
        env=environment,
        cwd=ROOT,
        death_signal=signal.SIGKILL,
    )


def _accepts(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
