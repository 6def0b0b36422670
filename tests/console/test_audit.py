"""The audit trail: appended to, never changed, and known to be whole."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import DatabaseError, connection, connections, transaction
from django.test import Client
from rest_framework.test import APIClient

from console.models import AuditEntry, User
from console.rules.json_changes import ChangeLine, change_lines
from console.services import audit
from console.services.audit_checks import verify_chain
from tests.factories import People, actor, people

pytestmark = pytest.mark.django_db


def write(user: User, count: int = 1, **fields: object) -> None:
    for number in range(count):
        with transaction.atomic():
            audit.record(
                **{  # type: ignore[arg-type]
                    "actor": actor(user),
                    "action": "test.act",
                    "subject": f"thing {number}",
                    "after": {"number": number, "share": 0.1, "text": "né 中"},
                    **fields,
                }
            )


def assert_whole(entries: int) -> None:
    report = verify_chain()
    assert (report.entries, report.checked, report.faults) == (entries, entries, [])


def tamper(statement: str) -> None:
    """Change the table behind the console's back, as the owner of the database could."""
    with connection.cursor() as cursor:
        cursor.execute("alter table console_auditentry disable trigger audit_append_only")
        cursor.execute(statement)
        cursor.execute("alter table console_auditentry enable trigger audit_append_only")


def test_an_entry_outside_the_transaction_of_its_act_is_refused(
    transactional_db: None, persons: People
) -> None:
    with pytest.raises(RuntimeError, match="inside the transaction"):
        audit.record(actor=actor(persons.ada), action="x", subject="y")


def test_an_entry_rolled_back_with_its_act_leaves_no_gap(persons: People) -> None:
    write(persons.ada)
    with transaction.atomic():
        audit.record(actor=actor(persons.ada), action="x", subject="y")
        transaction.set_rollback(True)
    write(persons.ada)
    assert list(AuditEntry.objects.order_by("sequence").values_list("sequence", flat=True)) == [
        1,
        2,
    ]
    assert_whole(2)


@pytest.mark.parametrize(
    "change", ["update console_auditentry set reason = 'x'", "delete from console_auditentry"]
)
def test_the_database_refuses_to_change_an_entry(persons: People, change: str) -> None:
    write(persons.ada)
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(change)


def test_an_untouched_chain_is_whole_whatever_it_says(persons: People) -> None:
    write(persons.ada, 3)
    write(
        persons.ada, before={"a": [1, 2.5, None]}, after=None, reason="né “中”\n", subject="x" * 300
    )
    assert_whole(4)
    assert len(AuditEntry.objects.latest("sequence").subject) == 200


def test_writers_at_once_make_one_chain(transactional_db: None) -> None:
    user = people().ada
    start = threading.Barrier(6)

    def append() -> None:
        start.wait()
        try:
            write(user, 5)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=append) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_whole(30)


def test_the_api_lists_filters_and_verifies(
    persons: People, api: Callable[[User], APIClient]
) -> None:
    write(persons.ada, 3)
    write(persons.sam, action="release.approve", subject="fraud_detector v3")
    client = api(persons.vic)
    everything = client.get("/api/v1/audit/").json()
    assert [entry["sequence"] for entry in everything["results"]] == [4, 3, 2, 1]
    assert everything["results"][3]["after"] == {"number": 0, "share": 0.1, "text": "né 中"}

    def sequences(query: str) -> list[int]:
        answer = client.get(f"/api/v1/audit/?{query}")
        assert answer.status_code == 200, answer.content
        return [entry["sequence"] for entry in answer.json()["results"]]

    assert sequences("actor=sam") == [4]
    assert sequences("action=release.") == [4]
    assert sequences("subject=fraud_detector") == [4]
    assert sequences("from=2020-01-01&to=2021-01-01T00:00:00Z") == []
    assert sequences("from=2020-01-01&limit=2") == [4, 3]
    page = client.get("/api/v1/audit/?limit=3").json()
    assert [e["sequence"] for e in client.get(page["next"]).json()["results"]] == [1]
    bad = client.get("/api/v1/audit/?from=yesterday")
    assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (422, "/from")

    verified = client.get("/api/v1/audit/verify/").json()
    assert (verified["ok"], verified["entries"], verified["faults"]) == (True, 4, [])
    tamper("update console_auditentry set reason = 'nothing' where sequence = 2")
    broken = client.get("/api/v1/audit/verify/").json()
    assert broken["ok"] is False
    assert broken["faults"] == [
        {
            "sequence": 2,
            "last": 2,
            "kind": "edited",
            "detail": "its content was changed after it was written",
        }
    ]


def test_the_page_shows_who_did_what_and_what_it_changed(
    persons: People, signed_in: Callable[[User], Client]
) -> None:
    write(persons.ada, before={"weights": {"3": 100}}, after={"weights": {"3": 95, "4": 5}})
    client = signed_in(persons.vic)
    page = client.get("/audit/").content.decode()
    for part in ("ada", "test.act", "thing 0", "weights.3", "100", "95", "weights.4"):
        assert part in page
    assert "Nothing matches" in client.get("/audit/?actor=nobody").content.decode()


def test_pages_of_entries_follow_each_other_both_ways(
    persons: People, signed_in: Callable[[User], Client]
) -> None:
    write(persons.ada, 120)
    client = signed_in(persons.vic)

    def read(query: str) -> tuple[list[int], str, str]:
        context = client.get(f"/audit/{query}").context
        shown = [row.entry.sequence for row in context["entries"]]
        return shown, context["previous_url"], context["next_url"]

    first, before, after = read("?action=test.")
    assert (first, before) == (list(range(120, 70, -1)), "")
    second, before, after = read(after)
    assert second == list(range(70, 20, -1))
    third, back, end = read(after)
    assert (third, end) == (list(range(20, 0, -1)), "")
    assert read(back)[0] == second
    assert read(before) == (first, "", read("?action=test.")[2])
    assert read("?cursor=nonsense")[0] == first
    assert read("?cursor=WyJuIiwieCJd")[0] == first


@pytest.mark.parametrize("address", ["/audit/", "/jobs/", "/api/v1/audit/", "/settings/people/"])
def test_a_long_list_takes_as_many_queries_as_a_short_one(
    persons: People,
    signed_in: Callable[[User], Client],
    django_assert_max_num_queries: Callable[..., object],
    address: str,
) -> None:
    client = signed_in(persons.ada)
    write(persons.ada, 5)

    def count() -> int:
        with django_assert_max_num_queries(12) as counted:  # type: ignore[attr-defined]
            assert client.get(address).status_code == 200
        return len(counted)

    few = count()
    write(persons.ada, 40)
    for number in range(20):
        User.objects.create(username=f"person-{number}", roles=["sre"])
    assert count() == few


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (None, {"a": 1}, [ChangeLine("added", "a", "", "1")]),
        ({"a": 1}, None, [ChangeLine("removed", "a", "1", "")]),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [ChangeLine("changed", "a.b", "1", "2")]),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, []),
        ({"a": 1}, {"a": {"b": 2}}, [ChangeLine("changed", "a", "1", '{"b": 2}')]),
        ({"a": "x"}, {"a": ["x"]}, [ChangeLine("changed", "a", "x", '["x"]')]),
        (None, None, []),
        (1, 2, [ChangeLine("changed", "", "1", "2")]),
    ],
)  # fmt: skip
def test_what_changed_between_two_values(
    before: object, after: object, lines: list[ChangeLine]
) -> None:
    assert change_lines(before, after) == lines
