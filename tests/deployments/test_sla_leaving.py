"""What of promises leaves the console: PDFs, links without an account, and mail on the 1st."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, cast

import click
import pypdf
import pytest
import time_machine
from aiosmtpd.controller import Controller
from django.core.cache import cache
from django.test import Client
from rest_framework.test import APIClient

from console.actors import Actor
from console.env_values import read_email
from console.errors import Conflict, Invalid, NotAllowed, NotFound, TooMany, Unavailable
from console.models import AuditEntry, Job, Team, User
from console.services import job_runs
from deployments.cli.sla import sla as cli_sla
from deployments.documents.sla_mail import send_report
from deployments.models import Endpoint, SlaReport, SlaShare, SlaStanding, SlaSubscription
from deployments.selectors.objectives.sla import sla
from deployments.selectors.objectives.sla_portfolio import (
    PortfolioFilter,
    month_portfolio,
    promised,
    rows_of,
    state_counts,
)
from deployments.services.objectives.sla_shares import PER_PDF, open_share, revoke_share, share_sla
from deployments.services.objectives.sla_standings import look_at_promises
from deployments.services.objectives.sla_subscriptions import (
    ask_for_reports,
    send_report_now,
    subscribe,
    unsubscribe,
)
from models_registry.models import Visibility
from tests import factories, stack
from tests.deployments.conftest import Fleet
from tests.deployments.test_sla_api import minute

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
WHERE: dict[str, Any] = {"environment": "production", "model": "fraud_detector"}


class Postbox:
    """What a real SMTP server took in; refuses while `broken`."""

    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []
        self.broken = False

    async def handle_DATA(self, server: object, session: object, envelope: Any) -> str:
        if self.broken:
            return "451 Requested action aborted"
        self.messages.append(message_from_bytes(envelope.content, policy=default))
        return "250 OK"


@pytest.fixture
def postbox(settings: Any) -> Iterator[Postbox]:
    box = Postbox()
    server = Controller(box, hostname="127.0.0.1", port=stack.free_port())
    server.start()
    port = server.port
    settings.MAIL_SERVER = read_email(
        {
            "COVENANT_EMAIL_URL": f"smtp://127.0.0.1:{port}",
            "COVENANT_EMAIL_FROM": "covenant@example.com",
        }
    )
    yield box
    server.stop()


@pytest.fixture(autouse=True)
def endpoint(fleet_rows: Fleet) -> Endpoint:
    cache.clear()
    model = factories.make_model()
    factories.make_contract(model)
    made = Endpoint.objects.create(model=model, environment=fleet_rows.production)
    for day in range(1, 29):
        minute(made, datetime(2026, 11, day, 12, tzinfo=UTC), 1_000, faults=int(day == 9))
    return made


def bea() -> Actor:
    person = factories.people().bea
    User.objects.filter(pk=person.pk).update(email="bea@example.com")
    person.refresh_from_db()
    return factories.actor(person)


def body(page: bytes) -> bytes:
    """The words of a plain page: around them stand a token and its own address."""
    return page.split(b"<h1>")[1].split(b"plain-foot")[0]


def subscribed(**more: Any) -> SlaSubscription:
    with time_machine.travel(datetime(2026, 11, 20, tzinfo=UTC), tick=False):
        return subscribe(**(more or WHERE), actor=bea())


def run_jobs() -> list[dict[str, Any]]:
    """Each queued report by its handler, claimed as a worker does, without renewing the lease."""
    results = []
    for job in Job.objects.filter(kind="sla_report", state="queued").order_by("created_at"):
        Job.objects.filter(pk=job.pk).update(not_before=job.created_at)
        claimed = job_runs.claim(job.pk)
        assert claimed is not None
        results.append(send_report(job_runs.JobRun(claimed)))
        Job.objects.filter(pk=job.pk).update(state="succeeded")
    return results


def texts(data: bytes) -> str:
    pages = pypdf.PdfReader(io.BytesIO(data)).pages
    return " ".join(" ".join(page.extract_text() for page in pages).split())


def test_a_promise_as_pdf_says_its_figures_in_the_language_asked_for(endpoint: Endpoint) -> None:
    client = APIClient()
    client.force_login(factories.people().vic)
    with time_machine.travel(NOW, tick=False):
        answer = client.get("/api/v1/endpoints/production/fraud_detector/sla.pdf?month=2026-11")
        chinese = client.get(
            "/api/v1/endpoints/production/fraud_detector/sla.pdf?month=2026-11&lang=zh-hans"
        )
    assert answer["Content-Type"] == "application/pdf"
    assert "fraud_detector-production-2026-11-en.pdf" in answer["Content-Disposition"]
    said = texts(answer.content)
    assert "Promise kept" in said
    assert "28,000 requests were counted." in said
    # 27,999 of 28,000: a miss never reads as 100 %.
    assert "99.996 %" in said
    assert "2026年11月" in texts(chinese.content)
    assert (
        client.get("/api/v1/endpoints/production/fraud_detector/sla.pdf?lang=xx").status_code == 422
    )
    assert AuditEntry.objects.filter(action="sla.export").exists()


def test_the_portfolio_as_pdf_and_csv_holds_what_one_may_see(endpoint: Endpoint) -> None:
    hidden = factories.make_model("secret_model")
    factories.make_contract(hidden)
    Endpoint.objects.create(model=hidden, environment=endpoint.environment)
    hidden.visibility = Visibility.TEAM
    hidden.save()
    client = APIClient()
    client.force_login(factories.make_user("stranger", "business_owner"))
    with time_machine.travel(NOW, tick=False):
        data = client.get("/api/v1/sla.pdf?month=2026-11").content
        lines = client.get("/api/v1/sla.csv?month=2026-11").content.decode().splitlines()
    assert "The one promise that had requests was kept." in texts(data)
    assert "secret_model" not in texts(data)
    assert [line.split(",")[1] for line in lines[1:]] == ["fraud_detector"] * 2


def test_a_link_shows_one_promise_to_whoever_holds_it(endpoint: Endpoint, client: Client) -> None:
    shared = share_sla(**WHERE, days=7, note="an auditor", actor=bea())
    assert shared.share.digest not in shared.link
    path = "/" + shared.link.split("/", 3)[3]
    page = client.get(f"{path}?month=2026-11")
    said = page.content.decode()
    assert page.status_code == 200
    assert "Promise kept" in said
    assert 'href="/' not in said.split("<main")[1]
    assert page["X-Robots-Tag"].startswith("noindex")
    assert page["Referrer-Policy"] == "no-referrer"
    assert "no-store" in page["Cache-Control"]
    assert client.get(f"{path}?lang=zh-hans").status_code == 200
    assert client.get(f"{path}report.pdf?month=2026-11").content.startswith(b"%PDF-")
    share = SlaShare.objects.get()
    assert (share.uses, share.last_used_at is not None) == (3, True)
    opened = AuditEntry.objects.filter(action="sla.share_open")
    assert {entry.after["what"] for entry in opened} == {"page", "pdf"}  # type: ignore[index]
    # Nothing else of the console opens by it.
    assert client.get("/sla/").status_code == 302


def test_a_link_that_ended_and_one_that_never_was_are_told_apart_by_nobody(client: Client) -> None:
    made_up = client.get("/shared/sla/made-up/")
    expired = share_sla(**WHERE, days=1, actor=bea())
    SlaShare.objects.update(expires_at=datetime(2026, 1, 1, tzinfo=UTC))
    revoked = share_sla(**WHERE, days=1, actor=bea())
    revoke_share(share_id=revoked.share.pk, actor=bea())
    revoke_share(share_id=revoked.share.pk, actor=bea())
    for shared in (expired, revoked):
        path = "/" + shared.link.split("/", 3)[3]
        answer = client.get(path)
        assert answer.status_code == made_up.status_code == 404
        assert body(answer.content) == body(made_up.content)
        assert client.get(f"{path}report.pdf").status_code == 404
    assert AuditEntry.objects.filter(action="sla.share_revoke").count() == 1


def test_links_are_made_by_those_who_may_and_within_bounds(endpoint: Endpoint) -> None:
    with pytest.raises(NotAllowed):
        share_sla(**WHERE, actor=factories.actor(factories.people().vic))
    for days in (0, 91):
        with pytest.raises(Invalid):
            share_sla(**WHERE, days=days, actor=bea())
    with pytest.raises(NotFound):
        share_sla(environment="production", model="nothing", actor=bea())
    for index in range(50):
        SlaShare.objects.create(
            endpoint=endpoint,
            digest=f"{index:064}",
            created_by=factories.people().bea,
            expires_at=datetime(2100, 1, 1, tzinfo=UTC),
        )
    with pytest.raises(Conflict):
        share_sla(**WHERE, actor=bea())


def test_a_link_is_opened_so_often_and_no_more() -> None:
    secret = share_sla(**WHERE, actor=bea()).link.rstrip("/").rpartition("/")[2]
    for _ in range(PER_PDF.attempts):
        open_share(secret=secret, address="192.0.2.1", what="pdf")
    with pytest.raises(TooMany):
        open_share(secret=secret, address="192.0.2.2", what="pdf")
    assert open_share(secret=secret, address="192.0.2.2", what="page").uses == 10


def test_on_the_first_each_report_goes_out_once_with_its_pdf(postbox: Postbox) -> None:
    subscribed()
    subscribed(team="", language="zh-hans")
    with time_machine.travel(NOW, tick=False):
        assert ask_for_reports(now=NOW) == 2
        assert ask_for_reports(now=NOW + timedelta(hours=1)) == 0
        results = run_jobs()
        assert ask_for_reports(now=NOW + timedelta(days=1)) == 0
    assert [result["mailed"] for result in results] == [1, 1]
    one, portfolio = sorted(postbox.messages, key=lambda message: message["Message-ID"])
    assert one["To"] == "bea@example.com"
    assert one["Subject"] == "fraud_detector in production, November 2026: Promise kept"
    text = cast(EmailMessage, one.get_body()).get_content()
    assert "28,000 requests were counted." in text
    assert "/sla/production/fraud_detector/?month=2026-11" in text
    (enclosed,) = one.iter_attachments()
    assert enclosed.get_filename() == "fraud_detector-production-2026-11-en.pdf"
    assert "Promise kept" in texts(enclosed.get_content())
    assert "2026年11月" in str(portfolio["Subject"])
    assert SlaReport.objects.filter(sent_at__isnull=False).count() == 2
    sent = AuditEntry.objects.filter(action="sla.report").first()
    assert sent is not None
    assert (sent.after or {})["to"] == "bea"


def test_a_report_that_no_server_took_is_tried_again_and_asked_for_the_next_day(
    postbox: Postbox,
) -> None:
    subscribed()
    postbox.broken = True
    with time_machine.travel(NOW, tick=False):
        ask_for_reports(now=NOW)
        with pytest.raises(Unavailable) as refused:
            run_jobs()
        # The job's own machinery tries it again.
        assert (refused.value.code, refused.value.retryable) == ("mail_not_sent", True)
        Job.objects.update(state="failed")
        postbox.broken = False
        assert ask_for_reports(now=NOW + timedelta(hours=2)) == 0
        assert ask_for_reports(now=NOW + timedelta(days=1)) == 1
        run_jobs()
    assert len(postbox.messages) == 1
    assert SlaReport.objects.get().sent_at is not None


def test_nothing_is_sent_to_whom_it_no_longer_concerns(
    postbox: Postbox, endpoint: Endpoint
) -> None:
    stranger = factories.make_user("stranger")
    User.objects.filter(pk=stranger.pk).update(email="stranger@example.com")
    stranger.refresh_from_db()
    with time_machine.travel(datetime(2026, 11, 3, tzinfo=UTC), tick=False):
        subscribe(**WHERE, actor=factories.actor(stranger))
    endpoint.model.visibility = Visibility.TEAM
    endpoint.model.save()
    ask_for_reports(now=NOW)
    assert [result["mailed"] for result in run_jobs()] == [0]
    assert postbox.messages == []
    User.objects.filter(pk=stranger.pk).update(is_active=False)
    assert ask_for_reports(now=NOW + timedelta(days=1)) == 0


def test_a_subscription_is_ones_own_and_the_same_twice_is_one(settings: Any) -> None:
    first = subscribed()
    again = subscribe(**WHERE, language="zh-hans", actor=bea())
    assert (first.pk, again.language) == (again.pk, "zh-hans")
    team = Team.objects.create(name="Payments", slug="payments")
    assert subscribe(team="payments", actor=bea()).team == team
    sam = factories.people().sam
    sam.email = ""
    with pytest.raises(Conflict):
        subscribe(**WHERE, actor=factories.actor(sam))
    with pytest.raises(NotFound):
        unsubscribe(subscription_id=first.pk, actor=factories.actor(sam))
    for wrong in ({"team": "none"}, {"environment": "nowhere"}):
        with pytest.raises(NotFound):
            subscribe(**wrong, actor=bea())
    with pytest.raises(Invalid):
        subscribe(**WHERE, language="xx", actor=bea())
    settings.MAIL_SERVER = None
    with pytest.raises(Unavailable):
        send_report_now(subscription_id=first.pk, actor=bea())
    assert ask_for_reports(now=NOW) == 0
    unsubscribe(subscription_id=first.pk, actor=bea())
    assert SlaSubscription.objects.get().team == team
    actions = AuditEntry.objects.values_list("action", flat=True)
    assert {"sla.subscribe", "sla.unsubscribe"} <= set(actions)


def test_the_last_month_can_be_sent_at_once(postbox: Postbox) -> None:
    report = subscribed()
    client = APIClient()
    client.force_login(factories.people().bea)
    with time_machine.travel(NOW, tick=False):
        answer = client.post(f"/api/v1/sla-subscriptions/{report.pk}/send/")
        assert answer.status_code == 202
        run_jobs()
    assert [message["To"] for message in postbox.messages] == ["bea@example.com"]
    assert client.get("/api/v1/sla-subscriptions/").json()[0]["last_month"] == "2026-11-01"


def test_thousands_of_promises_are_sorted_by_how_they_stood_and_counted_page_by_page(
    endpoint: Endpoint, django_assert_num_queries: Any
) -> None:
    for index in range(3):
        model = factories.make_model(f"model_{index}")
        factories.make_contract(model)
        made = Endpoint.objects.create(model=model, environment=endpoint.environment)
        minute(made, datetime(2026, 11, 28, 12, tzinfo=UTC), 1_000, faults=20 * (index == 1))
    assert look_at_promises(now=NOW) == 4
    user = factories.people().vic
    everything = promised(PortfolioFilter(), user=user)
    assert next(one.model.name for one in everything) == "model_1"
    assert state_counts(PortfolioFilter(), user=user)["broken"] == 1
    broken = promised(PortfolioFilter(state="broken"), user=user)
    assert [one.model.name for one in broken] == ["model_1"]
    with pytest.raises(Invalid):
        promised(PortfolioFilter(state="fine"), user=user)
    assert SlaStanding.objects.get(endpoint=endpoint).months["2026-11"]["state"] == "kept"
    with django_assert_num_queries(1):
        page = list(everything.all())
    with django_assert_num_queries(9):
        rows = rows_of(page, NOW)
    assert rows[0].state == "broken"
    assert len(rows[0].trend) == 6
    found = month_portfolio("2026-11", NOW, PortfolioFilter(), user=user)
    assert [row.state for row in found.rows] == ["broken", "kept", "kept", "kept"]


def test_the_page_of_a_promise_takes_the_same_queries_whatever_happened(
    endpoint: Endpoint, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(45):
        page = sla(endpoint, "2026-11", NOW)
    assert page.budget_lines[0].name == "latency"
    assert [month.state for month in page.months[-2:]] == ["no_data", "kept"]
    assert page.is_over


def test_links_and_reports_are_made_on_their_pages(endpoint: Endpoint, client: Client) -> None:
    client.force_login(bea().user)
    links = "/sla/production/fraud_detector/links/"
    made = client.post(links, {"note": "an auditor", "days": "7"})
    assert (made.status_code, made["Cache-Control"]) == (201, "no-store")
    assert "/shared/sla/" in made.content.decode()
    # Told this once.
    assert "/shared/sla/" not in client.get(links).content.decode()
    assert client.post(links, {"days": "400"}).status_code == 422
    share = SlaShare.objects.get()
    assert client.post(f"/sla/shares/{share.pk}/revoke/", {"reason": "done"}).status_code == 302
    assert client.post("/sla/reports/", WHERE).status_code == 302
    report = SlaSubscription.objects.get()
    assert "fraud_detector" in client.get("/sla/reports/").content.decode()
    assert client.post(f"/sla/reports/{report.pk}/end/").status_code == 302
    assert not SlaSubscription.objects.exists()
    client.force_login(factories.people().vic)
    assert client.get(links).status_code == 403


def test_an_endpoint_after_sla_is_shown_by_the_command_line() -> None:
    context = click.Context(cli_sla)
    assert cli_sla.resolve_command(context, ["production/fraud_detector", "--gate"])[0] == "show"
    assert cli_sla.resolve_command(context, ["list"])[0] == "list"
