"""What people are told: once each, until they have seen to it or it is over."""

from __future__ import annotations

import pytest
from django.test import Client
from rest_framework.test import APIClient

from console.errors import NotFound
from console.models import AuditEntry, Notice
from console.selectors.notices import open_notices
from console.services import notices
from tests.factories import People, actor, people

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> People:
    return people()


def tell(team: People, *, key: str = "drift:1", severity: str = "warning") -> int:
    return notices.notify(
        people=[team.sam, team.sam, team.ada],
        kind="placement.drift",
        key=key,
        severity=severity,
        subject="fraud_detector v1 on local",
        subject_url="/nodes/local/",
        data={"node": "local", "detail": "model.onnx differs"},
    )


def test_each_person_is_told_once(team: People) -> None:
    assert tell(team) == 2
    assert tell(team) == 0
    assert [one.subject for one in open_notices(team.sam)] == ["fraud_detector v1 on local"]


def test_nobody_who_left_is_told(team: People) -> None:
    team.sam.is_active = False
    assert tell(team) == 1


def test_what_was_over_is_told_again_when_it_is_back(team: People) -> None:
    tell(team)
    notices.dismiss(notice_id=open_notices(team.sam)[0].pk, actor=actor(team.sam))
    assert tell(team) == 0, "seen to, and its cause still there"
    assert notices.end(key="drift:1") == 2
    assert open_notices(team.ada) == []
    assert tell(team, severity="critical") == 2
    assert open_notices(team.sam)[0].severity == "critical"


def test_the_gravest_comes_first(team: People) -> None:
    tell(team, key="a", severity="critical")
    tell(team, key="b", severity="info")
    tell(team, key="c", severity="warning")
    assert [one.severity for one in open_notices(team.sam)] == ["critical", "warning", "info"]


def test_nobody_sees_to_the_notice_of_another(team: People) -> None:
    tell(team)
    notice = open_notices(team.sam)[0]
    with pytest.raises(NotFound):
        notices.dismiss(notice_id=notice.pk, actor=actor(team.vic))
    client = APIClient()
    client.force_authenticate(team.vic)
    assert client.post(f"/api/v1/notices/{notice.pk}/done/").status_code == 404
    assert Notice.objects.get(pk=notice.pk).done_at is None


def test_home_shows_it_until_it_is_seen_to(team: People) -> None:
    tell(team)
    client = Client()
    client.force_login(team.sam)
    assert "What is on local is not what was signed" in client.get("/").content.decode()
    notice = open_notices(team.sam)[0]
    done = client.post(f"/notices/{notice.pk}/done/", {"from": "home"})
    assert done.headers["Location"] == "/"
    assert "is not what was signed" not in client.get("/").content.decode()
    assert "is not what was signed" in client.get("/notices/").content.decode()
    assert AuditEntry.objects.filter(action="notice.done").count() == 1


def test_the_api_lists_what_is_open(team: People) -> None:
    tell(team)
    client = APIClient()
    client.force_authenticate(team.sam)
    rows = client.get("/api/v1/notices/").json()["results"]
    assert [row["kind"] for row in rows] == ["placement.drift"]
    assert client.post(f"/api/v1/notices/{rows[0]['id']}/done/").json()["done_at"]
    assert client.get("/api/v1/notices/").json()["results"] == []
    assert len(client.get("/api/v1/notices/?all=1").json()["results"]) == 1
