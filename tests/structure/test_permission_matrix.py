"""Who may do what, at every door: each role calls each API method and sends each page's form.

The doors come from the tables of addresses, what is expected from the table of permissions. A new
door without an action, and an action without a door, fail here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import transaction
from django.http import HttpResponse
from django.test import Client
from rest_framework.test import APIClient

from console.management.commands.permissions import BEGIN, END
from console.rules.doors import API_ACTS, OPEN, OWN
from console.rules.permissions import ACTIONS
from console.selectors.doors import page_acts
from console.selectors.permissions import as_markdown, permission_groups
from console.views.roles import ACTION_WORDS
from models_registry.models import RegisteredModel
from tests.structure.callers import Caller, callers, may, url_at
from tests.structure.conftest import Address, World, addresses
from tests.structure.test_addresses import accepts

ALL = {address.name: address for address in addresses()}
WRITES = ("POST", "PUT", "PATCH", "DELETE")
# A refusal by role or scope; others (`not_your_model`, `not_your_seat` …) say that more is asked.
BY_ROLE = {"not_allowed", "scope_missing", "person_needed"}
# Done by services alone, at no door of their own.
WITHOUT_DOOR = {"allow_load_test", "job.manage"}


def api_doors() -> Iterator[tuple[str, Address, str]]:
    """(method, address, action) of each API method that writes, or reads what not all may read."""
    for address in ALL.values():
        view = getattr(address.pattern.callback, "cls", None)
        if not address.is_api or view is None:
            continue
        named: dict[str, str] = getattr(view, "required_actions", {})
        for method in (*WRITES, "GET"):
            if not accepts(address, method) or (method == "GET" and method not in named):
                continue
            yield method, address, named.get(method, "")


def test_every_method_of_the_api_that_writes_names_its_action() -> None:
    wrong = [
        f"{method} {address.name}: {action or 'names no action in required_actions'}"
        for method, address, action in api_doors()
        if action not in ACTIONS and f"{method} {address.name}" not in API_ACTS
    ]
    assert not wrong, "\n".join(wrong)


def test_every_action_has_a_door_and_every_door_an_action() -> None:
    acts = set(page_acts().values())
    assert acts <= {*ACTIONS, OWN, OPEN}, acts - set(ACTIONS)
    named = acts | {action for _method, _address, action in api_doors()} - {""}
    assert set(ACTIONS) - named == WITHOUT_DOOR
    assert set(page_acts()) <= set(ALL), set(page_acts()) - set(ALL)


def test_the_docs_hold_the_matrix_as_it_is() -> None:
    text = (settings.BASE_DIR / "docs/permissions.md").read_text(encoding="utf-8")
    held = text.partition(BEGIN)[2].partition(END)[0]
    assert held == as_markdown(), "run: manage.py permissions --write docs/permissions.md"


def test_every_action_is_shown_in_words_and_in_one_group() -> None:
    shown = [row.action for _group, rows in permission_groups() for row in rows]
    assert sorted(shown) == sorted(ACTIONS)
    assert set(ACTION_WORDS) == set(ACTIONS)


@pytest.mark.django_db
def test_a_session_needs_the_csrf_token_for_every_write_of_the_api(world: World) -> None:
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(world.people.ada)
    wrong = []
    for address in ALL.values():
        for method in WRITES:
            # Where one signs in there is no session yet that could be misused.
            at_sign_in = f"{method} {address.name}" == "POST api:token-exchange"
            if address.is_api and accepts(address, method) and not at_sign_in:
                answer = _sent(client, address, world, method, {})
                if answer.status_code != 403:
                    wrong.append(f"{method} {address.name}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db
def test_every_page_that_takes_a_form_says_which_action_that_is(world: World) -> None:
    client = Client()
    client.force_login(world.people.ada)
    pages = [one for one in ALL.values() if not one.is_api]
    taking = {one.name for one in pages if _sent(client, one, world, "POST", {}).status_code != 405}
    assert taking - set(page_acts()) == set(), "these pages have no entry in their rules/doors.py"
    assert set(page_acts()) - taking == set(), "these entries are of pages that take no form"


@pytest.mark.django_db
def test_the_api_lets_in_whom_the_table_names_and_nobody_else(world: World) -> None:
    wrong: list[str] = []
    for caller in callers(RegisteredModel.objects.get(name=world.values["model"])):
        client = caller.client(APIClient)
        for method, address, action in api_doors():
            if action not in ACTIONS or not caller.is_told_apart_by(action):
                continue
            answer = _sent(client, address, world, method, {})
            wrong += _unlike(caller, f"{method} {address.name}", address, action, answer)
    assert not wrong, f"{len(wrong)} doors:\n" + "\n".join(wrong[:60])


@pytest.mark.django_db
def test_pages_let_in_whom_the_table_names_and_nobody_else(world: World) -> None:
    wrong: list[str] = []
    acts = {name: act for name, act in page_acts().items() if act in ACTIONS}
    for caller in callers(RegisteredModel.objects.get(name=world.values["model"])):
        if caller.token:
            continue  # a page knows sessions only
        client = caller.client(Client)
        for name, action in acts.items():
            if not caller.is_told_apart_by(action):
                continue
            answer = _sent(client, ALL[name], world, "POST", {})
            if caller.user is None:
                if "/sign-in/" not in answer.get("HX-Redirect", ""):
                    wrong.append(f"{name}: nobody signed in got {answer.status_code}")
                continue
            wrong += _unlike(caller, name, ALL[name], action, answer)
    assert not wrong, f"{len(wrong)} doors:\n" + "\n".join(wrong[:60])


def _sent(
    client: Client, address: Address, world: World, method: str, body: dict[str, str]
) -> HttpResponse:
    """The answer; whatever it changed is undone, so that the next caller finds the same world."""
    # A fragment is refused by a short document, a page by a whole one.
    kind = {"format": "json"} if isinstance(client, APIClient) else {"HTTP_HX_REQUEST": "true"}
    cookies = copy.deepcopy(client.cookies)
    with transaction.atomic():
        answer = getattr(client, method.lower())(url_at(address, world), body, **kind)
        if answer.streaming:
            answer.getvalue()
        transaction.set_rollback(True)
    client.cookies = cookies
    return answer


def _unlike(
    caller: Caller, door: str, address: Address, action: str, answer: HttpResponse
) -> list[str]:
    """What is wrong with an answer, as a list of nothing or one line."""
    status = answer.status_code
    code = _code(answer)
    refused = status == 401 or (status == 403 and code in BY_ROLE)
    allowed = may(caller, action, address)
    if allowed == (not refused) and status not in {405, 500}:
        return []
    expected = "allowed" if allowed else "refused"
    return [f"{door} ({action}) by {caller.name}: {expected}, but {status} {code}"]


def _code(answer: HttpResponse) -> str:
    if "problem+json" in answer.get("Content-Type", ""):
        return str(answer.json().get("code", ""))  # type: ignore[attr-defined]
    return str(getattr(answer, "problem_code", ""))
