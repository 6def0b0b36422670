"""Everything that matters is in the audit trail, and a new door or service cannot forget it.

The doors come from the tables of addresses, the services from the packages themselves.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from rest_framework.test import APIClient

from console.models import AuditEntry
from console.rules.audit_occurrences import ANY_EXPORT, EXPORTS, NO_EXPORTS, RECORDED_BY_SERVICE
from models_registry.models import ServiceContract
from tests.structure.conftest import Address, World
from tests.structure.test_addresses import ALL, VALUES, accepts, session

WRITES = ("POST", "PUT", "PATCH", "DELETE")
CHANGE = re.compile(r'^(?:INSERT INTO|UPDATE|DELETE FROM) "([a-z_]+)"')
# Tried by tests of their own: whoever comes after them here would be nobody.
ENDS_THE_SESSION = {"console:sign-out", "console:session-end", "console:settings"}
# Tables that are no facts of their own: the trail itself, what is derived from acts that are
# recorded, and what only says that somebody was here.
NO_FACTS = re.compile(
    r"^(?:console_audit|console_idempotentrequest|console_job|console_notice|console_session"
    r"|django_session|otp_)"
)
# Columns that are noted at each use.
USE_NOTED = re.compile(r'"last_(?:used|login|seen)[a-z_]*" = |"language" = ')


@pytest.mark.django_db
def test_every_write_through_a_door_appended_an_entry(world: World) -> None:
    """Each act of each page and each API method by an admin: what changed a table is on record."""
    forgot, recorded = [], set()
    for client, address, method, body in _acts(world):
        before = AuditEntry.objects.count()
        with transaction.atomic():
            with CaptureQueriesContext(
                connection,
            ) as queries:
                answer = _send(client, address, method, body, world)
            tables = _changed(queries.captured_queries)
            appended = AuditEntry.objects.count() - before
            transaction.set_rollback(True)
        if answer.status_code < 400 and tables and not appended:
            forgot.append(f"{method} {address.name} changed {', '.join(sorted(tables))}")
        if answer.status_code < 400 and tables and appended:
            recorded.add(address.name)
    assert not forgot, "\n".join(forgot)
    assert len(recorded) >= 25, f"too few acts succeeded for this to say much: {sorted(recorded)}"


@pytest.mark.django_db
def test_every_download_is_an_entry_of_its_own_kind(world: World) -> None:
    client = session(Client, world.people.ada)
    wrong, seen = [], set()
    for address in ALL.values():
        before = AuditEntry.objects.count()
        answer = client.get(_url(address, world))
        if answer.streaming:
            answer.getvalue()
        if not answer.get("Content-Disposition", "").startswith("attachment"):
            continue
        entries = list(
            AuditEntry.objects.order_by("-sequence")[: AuditEntry.objects.count() - before]
        )
        actions = [entry.action for entry in entries]
        seen.add(address.name)
        if address.name in RECORDED_BY_SERVICE:
            wrong += (
                []
                if actions == [RECORDED_BY_SERVICE[address.name]]
                else [f"{address.name}: {actions}"]
            )
        elif address.name in NO_EXPORTS:
            wrong += [f"{address.name}: {actions}"] if actions else []
        elif actions != [EXPORTS.get(address.name)] or actions == [ANY_EXPORT]:
            wrong.append(f"{address.name}: {actions}, and EXPORTS says {EXPORTS.get(address.name)}")
    assert not wrong, "\n".join(wrong)
    assert {"api:audit-export", "api:contract-bundle", "console:audit-export"} <= seen


def test_every_named_export_is_an_address() -> None:
    assert set(EXPORTS) <= set(ALL), set(EXPORTS) - set(ALL)


def _acts(world: World) -> Iterator[tuple[Any, Address, str, dict[str, Any]]]:
    page, api = session(Client, world.people.ada), session(APIClient, world.people.ada)
    for address in ALL.values():
        if address.name in ENDS_THE_SESSION:
            continue
        if not address.is_api:
            yield page, address, "POST", _form(world)
            continue
        for method in WRITES:
            if accepts(address, method):
                yield api, address, method, _body(world)


def _send(client: Any, address: Address, method: str, body: Any, world: World) -> Any:
    kind = {"format": "json"} if isinstance(client, APIClient) else {}
    answer = getattr(client, method.lower())(_url(address, world), body, **kind)
    if answer.streaming:
        answer.getvalue()
    return answer


def _url(address: Address, world: World) -> str:
    """The address with the world's things in it; of what the world has none, with what is none."""
    given = {**world.values, **VALUES.get(address.name, {})}
    nothing = {
        name: {"int": 999_999_999, "uuid": uuid.UUID(int=0)}.get(kind, "nothing-of-the-kind")
        for name, kind in address.kinds.items()
    }
    return reverse(address.name, kwargs={name: given.get(name, nothing[name]) for name in nothing})


def _form(world: World) -> dict[str, Any]:
    """A form with something right for most pages; each takes what it knows."""
    return {
        "address": "tls://logs.example.com:6514",
        "alias": "champion",
        "body": "Looks right.",
        "cordon_reason": "x",
        "days": "30",
        "display_name": "Sneaky",
        "enabled": "1",
        "environment": "staging",
        "kind": "syslog",
        "mode": "open",
        "name": "sneaky",
        "note": "x",
        "number": "1",
        "reason": "x",
        "release": str(world.values["release_id"]),
        "risk_class": "low",
        "roles": ["sre"],
        "scopes": ["read"],
        "seat": "sre",
        "slug": "sneaky",
        "text": "x",
        "title": "x",
        "user": "vic",
        "username": "sneaky",
    }


def _body(world: World) -> dict[str, Any]:
    """The same for the API."""
    return {
        **_form(world),
        "days": 30,
        "description": "x",
        "enabled": False,
        "filename": "m.onnx",
        "length": 3,
        "policy": {},
        "version": 1,
        "weights": {"1": 50, "2": 50},
    }


def _changed(queries: list[dict[str, str]]) -> set[str]:
    """Tables of facts that the statements changed."""
    found = set()
    for query in queries:
        statement = CHANGE.match(query["sql"])
        if statement is None or NO_FACTS.match(statement[1]) or USE_NOTED.search(query["sql"]):
            continue
        found.add(statement[1])
    return found


@pytest.mark.django_db
def test_a_signature_that_fails_is_on_record_at_the_page_and_at_the_api(world: World) -> None:
    """A page tells the refusal in its own words and with its own status; it counts all the same."""
    contract = ServiceContract.objects.get(model__name=world.values["model"], revision=1)
    ServiceContract.objects.filter(pk=contract.pk).update(state="proposed")
    browser, api = session(Client, world.people.sam), session(APIClient, world.people.sam)
    model = world.values["model"]
    page = browser.post(f"/models/{model}/contracts/1/sign/", {"envelope": "{}"})
    answer = api.post(
        f"/api/v1/models/{model}/contracts/1/signatures/",
        {"envelope": {"payload": 1}},
        format="json",
    )
    assert (page.status_code, answer.status_code) == (422, 422)
    entries = AuditEntry.objects.filter(action="signature.refused").order_by("sequence")
    assert [entry.source.split()[0] for entry in entries] == ["page", "api"]
    assert {entry.subject for entry in entries} == {f"model {model}"}
