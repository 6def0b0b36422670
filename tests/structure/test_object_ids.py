"""What is not one's to see is as if it were not there: every address with the id of such a thing.

Compared is with the same address of what does not exist: the same answer in the same words, for
reading and for every act, by pages and by the API.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from console.models import Role, Team, TeamMembership, User
from models_registry.models import RegisteredModel, SeatHolder, Visibility
from tests import factories
from tests.structure.callers import ACTING_ROLES, NOTHING, OF_A_MODEL, is_of_a_model, url_at
from tests.structure.conftest import Address, World, addresses, make_world
from tests.structure.test_addresses import accepts

HIDDEN, HIDDEN_RULE = "zz_hidden_model", "slow-answers"
ALL = list(addresses())
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# Parameters that name a thing, not a place in it.
IDS = frozenset(
    {"comment_id", "deployment_id", "draft_id", "job_id", "load_test_id", "release_id", "revision"}
    | {"alias_name", "experiment_id", "incident_id", "number", "rollout_id"}
    | {"window_id", "exclusion_id"}
    | {"alert_id", "silence_id", "diagnosis_id"}
)
# One's own things: to others they do not exist.
OWN = frozenset(
    {"handle", "identity_id", "key_id", "notice_id", "passkey_id", "token_id", "upload_id"}
)
# The public part of anybody's key may be looked at: signatures are checked with it.
PUBLIC = frozenset({"console:key"})


@pytest.fixture
def hidden_world(db: None) -> World:
    """The world with a model that is its team's alone."""
    world = make_world(HIDDEN)
    team = Team.objects.get(slug=world.values["slug"])
    RegisteredModel.objects.filter(name=HIDDEN).update(visibility=Visibility.TEAM, team=team)
    return world


def outsiders() -> list[User]:
    """Who has roles, and no part in the model: in another team, and globally."""
    dora = factories.make_user("dora", Role.DATA_SCIENTIST, Role.BUSINESS_OWNER)
    elsewhere = factories.make_user("elsewhere")
    other = Team.objects.create(name="Search", slug="search-team")
    roles = [role.value for role in ACTING_ROLES]
    TeamMembership.objects.create(team=other, user=elsewhere, roles=roles)
    return [elsewhere, dora]


@pytest.mark.django_db
def test_everything_of_a_hidden_model_is_answered_like_nothing(hidden_world: World) -> None:
    nothing: dict[str, Any] = dict.fromkeys((*OF_A_MODEL, "job_id"))
    wrong: list[str] = []
    for person in outsiders():
        for client, address, method in _doors(person):
            about_job = "job_id" in address.parameters
            if not is_of_a_model(address) and not about_job:
                continue
            named = {"name": None} if _names_the_model(address) else {}
            there = _answer(client, method, url_at(address, hidden_world))
            gone = _answer(client, method, url_at(address, hidden_world, **nothing, **named))
            if _words(there) != _words(gone):
                wrong.append(
                    f"{method} {address.name} by {person}: {_words(there)} ≠ {_words(gone)}"
                )
            # A bare address that only leads on (302) looks up nothing yet.
            if method == "GET" and there.status_code not in {302, 404, 405}:
                wrong.append(f"{method} {address.name} by {person}: {there.status_code}")
    assert not wrong, f"{len(wrong)} doors:\n" + "\n".join(wrong[:40])


@pytest.mark.django_db
def test_no_list_and_no_page_names_a_hidden_model(hidden_world: World) -> None:
    queries = {
        "search": "?q=zz_hid",
        "deployments:model-states": f"?name={HIDDEN}",
        "api:audit-export": "?format=jsonl",
        # What was asked before this is on record, too, and newer.
        "api:audit-list": f"?subject=model {HIDDEN}",
    }

    def naming(person: User) -> dict[str, str]:
        """Address → where its answer names the model."""
        found: dict[str, str] = {}
        for client, address, method in _doors(person):
            if method != "GET" or is_of_a_model(address) or address.name == "api:events":
                continue
            answer = client.get(url_at(address, hidden_world) + queries.get(address.name, ""))
            body = answer.getvalue() if answer.streaming else answer.content
            at = body.find(HIDDEN.encode())
            if at >= 0:
                found[address.name] = repr(body[max(0, at - 80) : at + 60])
        return found

    # What is asked for by name has a place in the answer, empty for both.
    wrong = naming(outsiders()[0])
    wrong.pop("deployments:model-states", None)
    assert not wrong, f"{len(wrong)} doors:\n" + "\n".join(map(str, wrong.items()))
    # The same addresses name it to who may see it: the search is not blind.
    assert {"home", "search", "api:job-list", "api:audit-list", "api:model-list"} <= set(
        naming(hidden_world.people.ada)
    )


@pytest.mark.django_db
def test_a_thing_under_another_parent_is_not_there(world: World) -> None:
    other = factories.make_model("other_model")
    client_of = {True: APIClient(), False: Client()}
    for client in client_of.values():
        client.force_login(world.people.ada)
    wrong: list[str] = []
    for address in ALL:
        named = IDS & set(address.parameters)
        if not named or not _names_the_model(address):
            continue
        nothing = dict.fromkeys(named)
        for method in METHODS:
            if address.is_api and not accepts(address, method):
                continue
            client = client_of[address.is_api]
            mine = _answer(client, method, url_at(address, world, name=other.name))
            gone = _answer(client, method, url_at(address, world, name=other.name, **nothing))
            if mine.status_code < 300 or _words(mine)[0] != _words(gone)[0]:
                wrong.append(f"{method} {address.name}: {_words(mine)} ≠ {_words(gone)}")
    assert not wrong, f"{len(wrong)} doors:\n" + "\n".join(wrong[:40])


@pytest.mark.django_db
def test_other_people_s_own_things_are_not_there(world: World) -> None:
    wrong: list[str] = []
    for person in outsiders()[:1]:
        for client, address, method in _doors(person):
            named = OWN & set(address.parameters)
            if not named or address.name in PUBLIC:
                continue
            there = _answer(client, method, url_at(address, world))
            gone = _answer(client, method, url_at(address, world, **dict.fromkeys(named)))
            if there.status_code < 300 or _words(there) != _words(gone):
                wrong.append(
                    f"{method} {address.name} by {person}: {_words(there)} ≠ {_words(gone)}"
                )
    assert not wrong, f"{len(wrong)} doors:\n" + "\n".join(wrong[:40])


@pytest.mark.django_db
def test_looking_for_a_hidden_model_takes_the_queries_of_looking_for_none(
    hidden_world: World,
) -> None:
    client = APIClient()
    client.force_login(hidden_world.people.vic)

    def asked(name: str) -> list[str]:
        client.get(f"/api/v1/models/{NOTHING}/")  # what is cached is cached for both
        with CaptureQueriesContext(
            connection,
        ) as seen:
            assert client.get(f"/api/v1/models/{name}/").status_code == 404
        return [query["sql"].split(" WHERE ")[0] for query in seen]

    assert asked(HIDDEN) == asked(NOTHING)


@pytest.mark.django_db
def test_a_taken_name_says_no_more_than_that(hidden_world: World) -> None:
    RegisteredModel.objects.create(name="seen_by_all", owner=hidden_world.people.ada)
    client = APIClient()
    client.force_login(hidden_world.people.dana)
    SeatHolder.objects.all().delete()
    RegisteredModel.objects.filter(name=HIDDEN).update(owner=hidden_world.people.ada)
    said = []
    for name in (HIDDEN, "seen_by_all"):
        answer = client.post("/api/v1/models/", {"name": name}, format="json")
        assert (answer.status_code, answer.json()["code"]) == (409, "name_taken")
        said.append({k: str(v).replace(name, "NAME") for k, v in answer.json().items()})
    assert said[0] == said[1]


def _doors(person: User) -> Iterator[tuple[Client, Address, str]]:
    pages, api = Client(), APIClient()
    pages.force_login(person)
    api.force_login(person)
    for address in ALL:
        for method in METHODS:
            if address.is_api and accepts(address, method):
                yield api, address, method
            elif not address.is_api and method in {"GET", "POST"}:
                yield pages, address, method


def _names_the_model(address: Address) -> bool:
    return "name" in address.parameters and (
        "models/" in address.route or "panels/" in address.route
    )


def _answer(client: Client, method: str, url: str) -> HttpResponse:
    """The answer; what it changed is undone."""
    kind = {"format": "json"} if isinstance(client, APIClient) else {"HTTP_HX_REQUEST": "true"}
    if method == "GET":
        kind.pop("format", None)
    cookies = client.cookies.copy()
    with transaction.atomic():
        answer: HttpResponse = getattr(client, method.lower())(url, {}, **kind)
        if answer.streaming:
            answer.getvalue()  # type: ignore[attr-defined]
        transaction.set_rollback(True)
    client.cookies = cookies
    return answer


def _words(answer: HttpResponse) -> tuple[int, str]:
    """Status and what a refusal says, whatever the thing is called; of a redirect only that."""
    if "problem+json" not in answer.get("Content-Type", ""):
        return answer.status_code, ""
    problem = answer.json()  # type: ignore[attr-defined]
    said = f"{problem.get('code')} {problem.get('detail')} {problem.get('hint')}"
    for name in (HIDDEN, HIDDEN_RULE, NOTHING):
        said = said.replace(name, "NAME")
    return answer.status_code, said
