"""The system check: what `manage.py doctor` looks at, and what only the console knows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

import redis
from django.conf import settings
from django.db import DatabaseError, connections
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from console.celery import app as celery_app
from console.models import Job, JobState
from console.rules.jobs import KINDS
from console.selectors.health import check_migrations
from console.stack import doctor

OVERDUE = timedelta(seconds=60)
_STATES = {"ok": "passed", "warning": "warning", "fault": "failed"}


@dataclass(frozen=True, slots=True)
class SystemCheck:
    """One part; `state` is passed, warning or failed; `fix` is the next step."""

    name: str
    state: str
    detail: str
    fix: str = ""


def system_checks() -> list[SystemCheck]:
    """Every check; they run side by side, so it takes as long as the slowest: a few seconds."""
    with ThreadPoolExecutor(max_workers=len(CHECKS)) as pool:
        return [check for found in pool.map(_guarded, CHECKS) for check in found]


def _guarded(look: Callable[[], list[SystemCheck]]) -> list[SystemCheck]:
    try:
        return look()
    except (DatabaseError, redis.RedisError, OSError, BrokerError) as error:
        return [
            SystemCheck(
                look.__name__.strip("_").capitalize(), "failed", " ".join(str(error).split())[:200]
            )
        ]
    finally:
        connections.close_all()


def _stack() -> list[SystemCheck]:
    return [
        SystemCheck(found.subject.capitalize(), _STATES[found.state], found.detail, found.mend)
        for found in doctor.examine(settings.CONFIG)
    ]


def _migrations() -> list[SystemCheck]:
    part = check_migrations()
    if part.ok:
        return [SystemCheck("Migrations", "passed", "The tables fit this version.")]
    return [SystemCheck("Migrations", "failed", part.detail, "Run “python manage.py migrate”.")]


def _workers() -> list[SystemCheck]:
    """Whether each queue that may have jobs is worked on, asked of the workers themselves."""
    answers = celery_app.control.inspect(timeout=1.0).active_queues() or {}
    served = {queue["name"] for queues in answers.values() for queue in queues}
    waiting = Job.objects.filter(state=JobState.QUEUED).values_list("queue", flat=True)
    wanted = {kind.queue for kind in KINDS.values() if kind.queue} | set(waiting.distinct())
    if missing := sorted(wanted - served):
        return [
            SystemCheck(
                "Workers",
                "failed",
                "Nobody works on the queue " + ", ".join(missing) + ".",
                "Start the worker with “make up”; its log says why it stopped.",
            )
        ]
    return [SystemCheck("Workers", "passed", "Queues served: " + ", ".join(sorted(served)) + ".")]


def _jobs() -> list[SystemCheck]:
    late = timezone.now() - OVERDUE
    overdue = Job.objects.filter(state=JobState.QUEUED, not_before__lt=late).count()
    if overdue:
        return [
            SystemCheck(
                "Jobs",
                "warning",
                f"{overdue} jobs have been waiting for more than a minute.",
                "Look whether their queue has a worker that is not busy.",
            )
        ]
    return [SystemCheck("Jobs", "passed", "No job waits for longer than a minute.")]


CHECKS: tuple[Callable[[], list[SystemCheck]], ...] = (_stack, _migrations, _workers, _jobs)
