"""Every address answers those who may, and nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from console.models import AuditEntry, User
from console.rules.audit_occurrences import DENIALS
from console.rules.doors import API_ACTS, OWN
from console.rules.doors import OPEN as OPEN_DOOR
from console.rules.permissions import ACTIONS
from console.selectors.doors import page_acts
from tests.structure.conftest import Address, World, addresses

ALL = {address.name: address for address in addresses()}
OPEN = {
    "console:healthz",
    "console:readyz",
    "console:metrics",
    "console:invitation",
    "console:invitation-enter",
    "console:sign-in",
    "console:sign-in-passkey",
    "console:sign-in-passkey-options",
    "console:sso",
    "console:sso-return",
    # Whoever holds the link of a promise has no account here.
    "deployments:shared-sla",
    "deployments:shared-sla-pdf",
    # Public keys: whoever verifies offline has no account here.
    "api:key-export",
    "api:schema",
}

# The values of a parameter that mean another thing in some addresses.
SERVICE_ACCOUNT = {"username": "ci-fraud"}
VALUES: dict[str, dict[str, Any]] = {
    **{
        name: SERVICE_ACCOUNT
        for name in ALL
        if name.partition(":")[2].startswith(("service-account", "workload"))
    },
    "deployments:gateway-certificate": {"gateway": "embedded"},
    "api:gateway-certificate": {"gateway": "embedded"},
    "api:environment-detail": {"name": "production"},
    "api:environment-freezes": {"name": "production"},
    "api:environment-freeze-lift": {"name": "production"},
    "api:environment-policy-preview": {"name": "production"},
    "api:endpoint-chart": {"name": "requests"},
    "api:endpoint-causes-chart": {"kind": "errors"},
    "api:endpoint-telemetry-chart": {"name": "feature_drift_score"},
    "deployments:load-test-chart": {"name": "latency"},
    "deployments:node-detail": {"name": "local"},
    "deployments:node-change": {"name": "local"},
    "deployments:node-cordon": {"name": "local"},
    "api:node-chart": {"name": "host-cpu"},
    "deployments:node-uncordon": {"name": "local"},
    "deployments:node-reconcile": {"name": "local"},
    "models_registry:environment-change": {"name": "production"},
    "models_registry:environment-freeze": {"name": "production"},
    "models_registry:environment-freeze-lift": {"name": "production"},
    "models_registry:environment-preview": {"name": "production"},
}
# What a GET answers where it is not 200: nothing to show in the rows of these tests, or no GET.
OTHER_ANSWERS = {
    "api:events": 404,
    "api:version-report-diff": 404,
    # Nothing was placed by a node here, so no folder was signed.
    "api:folder-signature": 404,
    # A link that nobody has: shown in the same words as one that is used.
    "console:invitation": 404,
    "console:invitation-enter": 404,
    "deployments:shared-sla": 404,
    "deployments:shared-sla-pdf": 404,
    # No provider is set up.
    "console:identity-link": 404,
    "console:sso-return": 404,
    "models_registry:version-errors": 404,
    # No collector runs here, so no machine was measured.
    "api:node-machine": 503,
}


def everybody_may() -> set[str]:
    """Acts that everybody who is signed in may do, on their own things, or that only ask."""
    free = {OPEN_DOOR, OWN, *(action for action, rule in ACTIONS.items() if not rule.roles)}
    found = {name for name, action in page_acts().items() if action in free}
    for address in ALL.values():
        view = getattr(address.pattern.callback, "cls", None)
        writes = set(getattr(view, "required_actions", {}).values())
        if writes and writes <= free:
            found.add(address.name)
    return found | {key.partition(" ")[2] for key in API_ACTS}


EVERYBODY_MAY = everybody_may()
WRITES = ("POST", "PUT", "PATCH", "DELETE")


def url_of(address: Address, world: World) -> str:
    given = {**world.values, **VALUES.get(address.name, {})}
    return reverse(address.name, kwargs={name: given[name] for name in address.parameters})


def session(client_class: Callable[..., Any], user: User) -> Any:
    client = client_class(raise_request_exception=True)
    client.force_login(user)
    return client


def accepts(address: Address, method: str) -> bool:
    return hasattr(getattr(address.pattern.callback, "cls", None), method.lower())


@pytest.mark.django_db
def test_every_page_and_every_list_opens_for_an_admin(world: World) -> None:
    client = session(Client, world.people.ada)
    wrong: list[str] = []
    for address in ALL.values():
        answer = client.get(url_of(address, world))
        expected = {OTHER_ANSWERS[address.name]} if address.name in OTHER_ANSWERS else {200, 302}
        # An act has no GET of its own.
        if answer.status_code != 405 and answer.status_code not in expected:
            wrong.append(f"{address.name}: {answer.status_code}")
        if answer.streaming:
            answer.getvalue()
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db
def test_nobody_gets_in_without_signing_in(world: World) -> None:
    client = Client()
    wrong: list[str] = []
    for address in ALL.values():
        if address.name in OPEN or address.name in {"set_language", "api:events"}:
            continue
        for method in ("GET", "POST"):
            if method == "POST" and address.name in {"api:token-list", "api:token-exchange"}:
                continue  # where the command line and workloads sign in
            answer = client.generic(
                method, url_of(address, world), "{}", content_type="application/json"
            )
            if address.is_api:
                good = answer.status_code == 401 and "problem+json" in answer["Content-Type"]
                # The method is looked at first where there is none at all.
                good |= answer.status_code == 405
            else:
                good = answer.status_code == 302 and "/sign-in/" in answer["Location"]
            if not good:
                wrong.append(f"{method} {address.name}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db
def test_a_viewer_changes_nothing_by_the_api(world: World) -> None:
    client = session(APIClient, world.people.vic)
    wrong: list[str] = []
    for address in ALL.values():
        if not address.is_api or address.name in EVERYBODY_MAY:
            continue
        for method in WRITES:
            if not accepts(address, method):
                continue
            answer = getattr(client, method.lower())(url_of(address, world), {}, format="json")
            if answer.status_code != 403 or "problem+json" not in answer["Content-Type"]:
                wrong.append(f"{method} {address.name}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db
def test_a_viewer_changes_nothing_by_a_page_and_those_who_may_do(world: World) -> None:
    typed = {
        "cordon_reason": "x",
        "environment": "staging",
        "mode": "open",
        "name": "sneaky",
        "note": "x",
        "number": "1",
        "reason": "x",
        "release": str(world.values["release_id"]),
        "risk_class": "low",
        "roles": ["platform_admin"],
        "user": "vic",
        "username": "sneaky",
        "visibility": "everybody",
    }

    def acts(user: User) -> list[str]:
        """Send every form of every page; what was done is on record."""
        client = session(Client, user)
        before = AuditEntry.objects.order_by("-sequence")[0].sequence
        for address in ALL.values():
            if not address.is_api and address.name not in EVERYBODY_MAY:
                answer = client.post(url_of(address, world), typed)
                assert answer.status_code < 500, address.name
        return list(
            AuditEntry.objects.filter(actor_username=user.username, sequence__gt=before)
            .exclude(action__in=DENIALS)
            .order_by("sequence")
            .values_list("action", flat=True)
        )

    assert acts(world.people.vic) == []
    done = acts(world.people.ada)
    assert {"model.create", "node.cordon", "user.create"} <= set(done), done


@pytest.mark.django_db
def test_every_act_needs_the_csrf_token_of_its_page(world: World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.people.ada)
    wrong: list[str] = []
    for address in ALL.values():
        if address.name == "api:token-exchange":
            continue  # looks at no session
        answer = client.post(url_of(address, world), "{}", content_type="application/json")
        if answer.status_code not in {403, 405}:
            wrong.append(f"{address.name}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)
