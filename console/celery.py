"""The workers' transport: queues by purpose. console.tasks holds the loop that watches jobs."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

from django.conf import settings

app = Celery("covenant")
app.conf.update(
    broker_url=settings.REDIS_URL,
    task_ignore_result=True,
    # The job row is the truth and has a lease of its own: a message is taken once, and what a
    # killed worker leaves behind is sent again by the sweep, not by the broker.
    task_acks_late=False,
    worker_prefetch_multiplier=1,
    # Above the longest job: a shorter time starts live jobs twice.
    broker_transport_options={
        "visibility_timeout": 6 * 3600,
        "socket_connect_timeout": 1,
        "socket_timeout": 30,
        "retry_policy": {"max_retries": 1, "interval_start": 0, "interval_max": 0.2},
    },
    task_publish_retry=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    task_default_queue="control",
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    timezone="UTC",
    beat_schedule={
        "expire-uploads": {
            "task": "models_registry.tasks.expire_uploads",
            "schedule": 600.0,
        },
        "watch-contracts": {
            "task": "models_registry.tasks.watch_contracts",
            "schedule": 3600.0,
        },
        "watch-releases": {
            "task": "models_registry.tasks.watch_releases",
            "schedule": 900.0,
        },
        "watch-tokens": {"task": "console.tasks.watch_tokens", "schedule": 3600.0},
        "forget-sessions": {"task": "console.tasks.forget_sessions", "schedule": 3600.0},
        "forget-requests": {"task": "console.tasks.forget_requests", "schedule": 3600.0},
        "keep-audit": {"task": "console.tasks.keep_audit", "schedule": 60.0},
        "verify-audit": {"task": "console.tasks.ask_for_audit_check", "schedule": 86_400.0},
        "warn-of-keys": {"task": "console.tasks.warn_of_keys", "schedule": 3600.0},
        "forget-deliveries": {
            "task": "deployments.tasks.forget_deliveries",
            "schedule": 3600.0,
        },
        "roll-counts": {"task": "deployments.tasks.roll_counts", "schedule": 60.0},
        "forget-counters": {"task": "deployments.tasks.forget_counters", "schedule": 86_400.0},
        "keep-counts": {"task": "deployments.tasks.keep_counts", "schedule": 3600.0},
        "check-nodes": {"task": "deployments.tasks.check_live", "schedule": 300.0},
        "look-at-promises": {"task": "deployments.tasks.look_at_promises", "schedule": 300.0},
        # Each hour: on the 1st it finds what is due, afterwards what could not be sent.
        "ask-for-sla-reports": {
            "task": "deployments.tasks.ask_for_sla_reports",
            "schedule": 3600.0,
        },
        "verify-live": {"task": "deployments.tasks.verify_live", "schedule": 900.0},
    },
)
app.autodiscover_tasks(["console", "models_registry", "deployments"])
