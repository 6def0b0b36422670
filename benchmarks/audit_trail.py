"""The audit trail at size: appends, checks, pages and exports with a million entries.

    python -m benchmarks.audit_trail [ENTRIES]

Uses databases of its own (as the tests do), fills the trail by COPY with a chain that fits, twelve
months of it, and prints one line for each figure.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tests import stack

stack.provide()

import django  # noqa: E402 - needs the environment from above

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection, connections, transaction  # noqa: E402
from django.test import Client  # noqa: E402

from console.models import AuditHead, User  # noqa: E402
from console.rules.audit_chain import GENESIS, EntryContent, entry_digest  # noqa: E402
from console.rules.audit_partitions import Month  # noqa: E402
from console.selectors.audit import AuditFilter  # noqa: E402
from console.services import audit  # noqa: E402
from console.services.audit_checkpoints import make_checkpoint  # noqa: E402
from console.services.audit_checks import verify_chain  # noqa: E402
from console.services.audit_exports import export  # noqa: E402
from tests.factories import People, actor, people  # noqa: E402

ACTIONS = ("split.change", "model.change", "release.approve", "sign_in.succeeded", "access.denied")
NAMES = ("dana", "sam", "bea", "ada", "vic")
COLUMNS = (
    "sequence, at, actor_username, actor_id_text, action, subject, subject_url, before, after, "
    "reason, source, request_id, previous_digest, digest"
)


def entries(count: int, start: datetime) -> Iterator[tuple[Any, ...]]:
    """Rows of a chain that fits, spread over a year."""
    previous, step = GENESIS, timedelta(days=360) / count
    for number in range(1, count + 1):
        at = start + step * number
        content = EntryContent(
            number,
            at.isoformat(timespec="microseconds"),
            NAMES[number % 97 % 5],
            "1",
            ACTIONS[number % 5],
            f"model m{number % 10_000}",
            f"/models/m{number % 10_000}/",
            {"weights": {"1": 100}},
            {"weights": {"1": 95, "2": number % 100}},
            "a reason",
            "page 127.0.0.1",
            f"r{number}",
        )
        digest = entry_digest(previous, content)
        yield (
            number, at, content.actor_username, "1", content.action, content.subject,
            content.subject_url, '{"weights": {"1": 100}}',
            f'{{"weights": {{"1": 95, "2": {number % 100}}}}}', content.reason, content.source,
            content.request_id, previous, digest,
        )  # fmt: skip
        previous = digest


def fill(count: int) -> None:
    start = datetime.now(tz=UTC) - timedelta(days=365)
    for months in range(14):
        audit.make_partition(Month.of(start).plus(months))
    last: tuple[Any, ...] = ()
    with (
        connection.cursor() as cursor,
        cursor.copy(f"copy console_auditentry ({COLUMNS}) from stdin") as copy,
    ):
        for last in entries(count, start):
            copy.write_row(last)
    AuditHead.objects.update_or_create(id=1, defaults={"sequence": count, "digest": last[-1]})
    with connection.cursor() as cursor:
        cursor.execute("vacuum analyze console_auditentry")


def timed(name: str, act: Callable[[], Any], times: int = 1) -> Any:
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        result = act()
        spent.append(time.perf_counter() - began)
    spent.sort()
    shown = f"{spent[len(spent) // 2] * 1000:9.1f} ms"
    worst = f"  worst {spent[-1] * 1000:.1f} ms" if times > 1 else ""
    print(f"{name:<58}{shown}{worst}", flush=True)
    return result


def append(persons: People, count: int) -> None:
    for number in range(count):
        with transaction.atomic():
            audit.record(
                actor=actor(persons.ada), action="test.act", subject="x", after={"n": number}
            )


def pages(user: User) -> None:
    client = Client(HTTP_HOST="127.0.0.1")
    client.force_login(user)
    assert client.get("/audit/").status_code == 200
    for name, query in (
        ("newest", ""),
        ("one person", "actor=sam"),
        ("one act", "action=release."),
        ("one model", "subject=model m77"),
        ("denied", "outcome=denied"),
        ("one request", "request_id=r500"),
        ("a week", "since=2026-06-01&until=2026-06-07"),
        ("nothing found", "actor=nobody"),
        ("the last page but one", "cursor=WyJwIiwiMSJd"),
    ):
        timed(f"page of {user.username}: {name}", lambda q=query: client.get(f"/audit/?{q}"), 9)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    call_command("migrate", verbosity=0)
    persons = people()
    began = time.perf_counter()
    append(persons, 1000)
    print(f"{'appends by one writer':<58}{1000 / (time.perf_counter() - began):9.0f} /s")
    threads = [
        threading.Thread(target=lambda: (append(persons, 250), connections.close_all()))
        for _ in range(4)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{'appends by four writers':<58}{1000 / (time.perf_counter() - began):9.0f} /s")
    with connection.cursor() as cursor:
        cursor.execute("truncate console_auditentry")
    timed(f"filling {count} entries", lambda: fill(count))
    began = time.process_time()
    report = timed("check of all", verify_chain)
    own = time.process_time() - began
    print(
        f"{'':<58}{report.checked / report.seconds:9.0f} entries/s, "
        f"{report.checked / own:.0f} per second of its own CPU; faults: {len(report.faults)}"
    )
    make_checkpoint(actor=actor(persons.ada), now=datetime.now(tz=UTC))
    append(persons, 50)
    timed("check since the last checkpoint", lambda: verify_chain(full=False), 5)
    pages(persons.ada)
    pages(persons.vic)
    for form in ("jsonl", "csv"):
        file = export(wanted=AuditFilter(), form=form, actor=actor(persons.ada))  # type: ignore[arg-type]
        began = time.perf_counter()
        first = next(file.chunks)
        waited = time.perf_counter() - began
        size = len(first) + sum(len(chunk) for chunk in file.chunks)
        spent = time.perf_counter() - began
        print(
            f"{f'export of all as {form}':<58}{count / spent:9.0f} entries/s, "
            f"{size / 2**20 / spent:.0f} MiB/s, first byte after {waited * 1000:.0f} ms"
        )


if __name__ == "__main__":
    main()
