"""The files of a listener's certificate: set, read anew when they change, told in time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.models import AuditEntry, Notice
from deployments.models import Gateway, GatewayListener
from deployments.services.gateways.certificate_watch import warn_of_certificates
from deployments.services.gateways.certificates import set_certificate
from deployments.services.gateways.desired import gateway_state
from deployments.services.gateways.registrations import register_gateway
from tests import factories
from tests.adapters.certificates import make_pair, write_pair
from tests.deployments.conftest import Fleet
from tests.models_registry.browsing import Visitor

pytestmark = pytest.mark.django_db


@pytest.fixture
def tls(fleet_rows: Fleet, tmp_path: Path) -> Fleet:
    """The gateway's listener for production has its certificate in `tmp_path`."""
    files = write_pair(tmp_path, make_pair(days=40))
    set_certificate(
        gateway=fleet_rows.gateway.name,
        environment="production",
        certificate_file=files[0],
        key_file=files[1],
        reason="TLS.",
        actor=fleet_rows.sam,
    )
    return fleet_rows


def held(fleet: Fleet) -> str:
    """The chain that gateways would be told now."""
    certificate = gateway_state(fleet.gateway).certificates["production"]
    return certificate.chain if certificate else ""


def test_a_new_pair_is_taken_when_its_files_change(tls: Fleet, tmp_path: Path) -> None:
    first = (tmp_path / "tls.crt").read_text()
    assert held(tls) == first
    assert "staging" not in gateway_state(tls.gateway).certificates
    listener = GatewayListener.objects.get(environment__name="production")
    assert listener.public_url.startswith("https://")
    assert listener.certificate_not_after is not None
    second = make_pair(days=90)
    write_pair(tmp_path, second)
    assert held(tls) == second[0]
    entry = AuditEntry.objects.latest("sequence")
    assert entry.action == "gateway.certificate_read"
    assert "PRIVATE KEY" not in str(entry.after)


def test_a_bad_pair_is_told_when_it_stays_and_the_last_good_one_serves_on(
    tls: Fleet, tmp_path: Path
) -> None:
    good = held(tls)
    write_pair(tmp_path, (make_pair()[0], make_pair()[1]))
    assert held(tls) == good
    assert not Notice.objects.filter(kind="certificate.bad").exists(), "it may be half written"
    assert held(tls) == good
    notice = Notice.objects.get(kind="certificate.bad", recipient=tls.sam.user)
    assert "does not belong" in notice.data["detail"]
    assert "does not belong" in Gateway.objects.get(pk=tls.gateway.pk).last_refusal
    better = make_pair()
    write_pair(tmp_path, better)
    assert held(tls) == better[0]
    notice.refresh_from_db()
    assert notice.ended_at is not None


def test_people_are_told_30_and_7_days_ahead_and_when_it_has_ended(tls: Fleet) -> None:
    assert held(tls)
    now = timezone.now()

    def told(days: float) -> list[int]:
        warn_of_certificates(now + timedelta(days=days))
        warn_of_certificates(now + timedelta(days=days))
        open_now = Notice.objects.filter(
            kind="certificate.expires", recipient=tls.sam.user, ended_at__isnull=True
        )
        return [notice.data["days"] for notice in open_now]

    assert told(5) == []
    assert told(11) == [30]
    assert told(34) == [7]
    assert told(41) == [0]
    GatewayListener.objects.update(certificate_not_after=now + timedelta(days=365))
    assert told(41) == []


def test_the_files_are_set_by_those_who_register_gateways(fleet_rows: Fleet) -> None:
    url = f"/api/v1/gateways/{fleet_rows.gateway.name}/certificates/production/"
    client = APIClient()
    client.force_login(factories.people().dana)
    body = {"certificate_file": "/etc/tls/a.crt", "key_file": "/etc/tls/a.key"}
    assert client.put(url, body, format="json").status_code == 403
    client.force_login(fleet_rows.sam.user)
    answer = client.put(url, body, format="json")
    assert answer.status_code == 200, answer.json()
    assert answer.json()["certificate_not_after"] is None
    half = client.put(url, {**body, "key_file": ""}, format="json")
    assert half.json()["errors"][0]["pointer"] == "/key_file"
    relative = client.put(url, {**body, "key_file": "a.key"}, format="json")
    assert relative.status_code == 422
    off = client.put(url, {"certificate_file": "", "key_file": ""}, format="json")
    assert off.json()["public_url"].startswith("http://")
    elsewhere = "/api/v1/gateways/none/certificates/production/"
    assert client.put(elsewhere, body, format="json").status_code == 404


def test_the_page_of_a_certificate(tls: Fleet) -> None:
    url = f"/gateways/{tls.gateway.name}/certificates/production/"
    page = Visitor(tls.sam.user)
    assert "no good pair read yet" in page.get(url)
    assert held(tls)
    assert "Valid until" in page.get(url)
    GatewayListener.objects.update(certificate_not_after=timezone.now() + timedelta(days=20))
    assert "ends soon" in page.get(url)
    half = page.client.post(url, {"certificate_file": "/a.crt", "key_file": "", "reason": "So."})
    assert half.status_code == 422
    assert "Give both files, or neither." in half.content.decode()
    off = page.client.post(url, {"certificate_file": "", "key_file": "", "reason": "So."})
    assert off.status_code == 302
    assert "plain HTTP" in page.get(url)
    assert "Certificate" in page.get(f"/gateways/{tls.gateway.name}/")
    assert page.get(f"/gateways/{tls.gateway.name}/certificates/nowhere/").status == 404


def test_registering_the_gateway_anew_keeps_its_tls(tls: Fleet) -> None:
    register_gateway(
        name=tls.gateway.name,
        admin_url=tls.gateway.admin_url,
        listeners={"production": ("127.0.0.1", 9443), "staging": ("127.0.0.1", 9080)},
        actor=tls.system,
    )
    urls = dict(GatewayListener.objects.values_list("environment__name", "public_url"))
    assert urls == {"production": "https://127.0.0.1:9443", "staging": "http://127.0.0.1:9080"}
