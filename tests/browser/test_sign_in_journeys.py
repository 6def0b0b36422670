"""Passkeys in a real browser with a virtual authenticator, and single sign-on at a real provider.

The site is reached as http://localhost: a passkey belongs to a name, never to an address.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from console.models import AuditEntry, ExternalIdentity, Passkey, Session, Team, User
from console.services.invitations import invite
from console.stack import process
from tests import stack
from tests.console.conftest import launch_web
from tests.console.oidc_provider import CLIENT_ID, CLIENT_SECRET, PROVIDER_PASSWORD
from tests.factories import PASSWORD, actor, make_user

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page

RULES = "ml-people=data_scientist;ops=sre;ops=team/payments:sre"
Open = Callable[[str], "Page"]


@dataclass(frozen=True, slots=True)
class Site:
    """Where the console and the provider are."""

    url: str
    provider: str


@pytest.fixture(scope="module")
def site(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The console at http://localhost, and Canaille as its provider, each a process."""
    folder = tmp_path_factory.mktemp("sso")
    port, provider_port = stack.free_port(), stack.free_port()
    url, provider = f"http://localhost:{port}", f"http://localhost:{provider_port}"
    log = folder / "provider.log"
    child = process.spawn(
        process.Command(
            argv=[
                *(sys.executable, "-m", "tests.console.oidc_provider", str(provider_port)),
                *(f"{url}/sign-in/sso/return/", str(folder)),
            ],
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
            cwd=Path.cwd(),
        ),
        log,
    )
    try:
        stack.wait_until("the provider", lambda: (folder / "ready").exists(), child, log)
        web = launch_web(
            folder,
            "console.asgi:application",
            port,
            COVENANT_BASE_URL=url,
            COVENANT_OIDC_ISSUER=provider,
            COVENANT_OIDC_NAME="the company",
            COVENANT_OIDC_CLIENT_ID=CLIENT_ID,
            COVENANT_OIDC_CLIENT_SECRET=CLIENT_SECRET,
            COVENANT_OIDC_SCOPES="openid profile email groups",
            COVENANT_OIDC_SIGN_UP="anybody",
            COVENANT_OIDC_GROUP_ROLES=RULES,
        )
        yield Site(url, provider)
        process.stop(web.child, signal.SIGKILL, seconds=5)
    finally:
        process.stop(child, signal.SIGKILL, seconds=5)


@pytest.fixture
def open_page(transactional_db: None, site: Site, browser: Browser) -> Iterator[Open]:
    """`open_page("/sign-in/")`: a browser of its own each time; faults of our pages fail it."""
    contexts, faults = [], []

    def visit(address: str) -> Page:
        context = browser.new_context(
            base_url=site.url, viewport={"width": 1280, "height": 900}, locale="en-GB"
        )
        context.set_default_timeout(15_000)
        contexts.append(context)
        tab = context.new_page()
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on(
            "console",
            lambda line: (
                faults.append(line.text)
                if line.type == "error"
                and line.location["url"].startswith(site.url)
                and "status of 4" not in line.text
                else None
            ),
        )
        tab.goto(address)
        return tab

    yield visit
    for context in contexts:
        context.close()
    assert faults == []


def authenticator(page: Page) -> tuple[CDPSession, str]:
    """A virtual authenticator with discoverable credentials, which knows its owner."""
    cdp = page.context.new_cdp_session(page)
    cdp.send("WebAuthn.enable")
    made = cdp.send(
        "WebAuthn.addVirtualAuthenticator",
        {
            "options": {
                "protocol": "ctap2",
                "transport": "internal",
                "hasResidentKey": True,
                "hasUserVerification": True,
                "isUserVerified": True,
                "automaticPresenceSimulation": True,
            }
        },
    )
    return cdp, made["authenticatorId"]


def by_password(page: Page, name: str) -> None:
    page.fill("#id_username", name)
    page.fill("#id_password", PASSWORD)
    page.click("form.form button[type=submit]")


def at_the_provider(page: Page, name: str) -> None:
    page.fill("#login", name)
    page.click("button[type=submit].primary")
    page.fill("input[type=password]", PROVIDER_PASSWORD)
    page.click("button[type=submit].primary")


def inside(page: Page) -> None:
    """Wait until the page is one of the console that takes a signed-in person."""
    page.wait_for_selector("form[action='/sign-out/']", state="attached")


def by_of_last_sign_in() -> object:
    entry = AuditEntry.objects.filter(action="sign_in.succeeded").order_by("sequence").last()
    return entry and (entry.actor_username, entry.after["by"])


def why_of_last_failure() -> object:
    entry = AuditEntry.objects.filter(action="sign_in.failed").order_by("sequence").last()
    return entry and entry.after["why"]


def test_a_passkey_is_enrolled_opens_the_account_alone_and_is_asked_beside_a_password(
    open_page: Open,
) -> None:
    ada = make_user("ada", "platform_admin", password=PASSWORD)
    page = open_page("/sign-in/?next=/settings/security/")
    cdp, device = authenticator(page)
    by_password(page, "ada")
    page.fill("#passkey-name", "laptop")
    page.fill("#passkey-password", PASSWORD)
    page.click("text=Add a passkey")
    page.wait_for_selector("text=I have kept them")
    assert len((page.text_content(".recovery-codes code") or "").split()) == 10
    assert Passkey.objects.get(user=ada).name == "laptop"

    # Alone, from a page that was asked for: no name, no password.
    page.context.clear_cookies()
    page.goto("/jobs/")
    page.click("text=Sign in with a passkey")
    inside(page)
    assert by_of_last_sign_in() == ("ada", "passkey")

    # Beside the password, as the second step.
    page.context.clear_cookies()
    page.goto("/sign-in/")
    by_password(page, "ada")
    page.wait_for_url("**/sign-in/code/")
    page.click("text=Use a passkey")
    inside(page)
    assert by_of_last_sign_in() == ("ada", "password+passkey")

    # A counter that is behind the one we know is that of a copy.
    Passkey.objects.filter(user=ada).update(sign_count=1000)
    page.context.clear_cookies()
    page.goto("/sign-in/")
    page.click("text=Sign in with a passkey")
    page.wait_for_selector('[data-passkey-state="refused"]')
    assert why_of_last_failure() == "passkey_refused"
    assert Session.objects.filter(user=ada, means="passkey").count() == 1

    # A passkey that is not known says no more than that.
    Passkey.objects.all().delete()
    page.click("text=Sign in with a passkey")
    page.wait_for_selector("text=This passkey opens no account here.")
    # Passwordless means that the device makes sure who holds it.
    cdp.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": False})
    page.click("text=Sign in with a passkey")
    page.wait_for_selector('[data-passkey-state="cancelled"]')


def test_single_sign_on_makes_an_account_with_the_roles_of_its_groups(
    open_page: Open, site: Site
) -> None:
    make_user("ada", "platform_admin")
    Team.objects.create(name="Payments", slug="payments")
    page = open_page("/jobs/")
    page.click("text=Continue with the company")
    at_the_provider(page, "sam")
    page.wait_for_url(f"{site.url}/jobs/")
    sam = User.objects.get(username="sam")
    assert sam.roles == ["sre"]
    assert [(m.team.slug, m.roles) for m in sam.memberships.all()] == [("payments", ["sre"])]
    assert not sam.has_usable_password()
    identity = ExternalIdentity.objects.get(user=sam)
    assert (identity.issuer, identity.subject) == (site.provider, "sam")
    assert by_of_last_sign_in() == ("sam", "oidc")
    changed = AuditEntry.objects.get(action="user.roles")
    assert (changed.actor_username, changed.after) == ("system", {"roles": ["sre"]})

    # What is changed by hand goes by the groups again at the next sign-in.
    User.objects.filter(pk=sam.pk).update(roles=["business_owner"])
    page.goto("/settings/")
    page.locator("form[action='/sign-out/'] button").first.dispatch_event("click")
    page.wait_for_selector("text=Sign out at the company as well")
    page.click("text=Continue with the company")
    inside(page)
    sam.refresh_from_db()
    assert sam.roles == ["sre"]

    # Who was deactivated stays out, whatever the provider says.
    page.context.clear_cookies(name="sessionid")
    User.objects.filter(pk=sam.pk).update(is_active=False)
    page.goto("/sign-in/sso/")
    page.wait_for_selector("text=The account sam is deactivated.")
    assert why_of_last_failure() == "deactivated"


def test_an_address_or_a_name_of_somebody_opens_nothing_of_theirs(
    open_page: Open, site: Site
) -> None:
    ada = make_user("ada", "platform_admin")
    dana = make_user("dana", "business_owner")
    page = open_page("/sign-in/sso/")
    at_the_provider(page, "eve")
    inside(page)
    assert by_of_last_sign_in() == ("eve", "oidc")
    assert User.objects.get(username="eve").roles == []
    other = open_page("/sign-in/sso/")
    at_the_provider(other, "dana")
    inside(other)
    assert by_of_last_sign_in() == ("dana-2", "oidc")
    assert not ExternalIdentity.objects.filter(user__in=[ada, dana]).exists()


def test_an_invitation_is_accepted_with_an_account_of_the_provider(
    open_page: Open, site: Site
) -> None:
    ada = make_user("ada", "platform_admin")
    invited = invite(
        username="eva",
        display_name="Eva",
        email="eva@example.com",
        roles=["viewer"],
        teams=[],
        actor=actor(ada),
    )
    page = open_page(urlsplit(invited.link).path)
    page.click("text=Continue with the company")
    at_the_provider(page, "eve")
    inside(page)
    eva = User.objects.get(username="eva")
    assert ExternalIdentity.objects.get(user=eva).subject == "eve"
    assert not eva.has_usable_password()
    # Its group rules give eve nothing: what is set here goes by them from the first sign-in on.
    assert by_of_last_sign_in() == ("eva", "oidc")


def test_an_account_is_linked_by_who_is_signed_in_and_proves_it(
    open_page: Open, site: Site
) -> None:
    make_user("ada", "platform_admin")
    dana = make_user("dana", "data_scientist", password=PASSWORD)
    page = open_page("/sign-in/?next=/settings/security/")
    by_password(page, "dana")
    page.click("text=Link the company")
    at_the_provider(page, "dana")
    page.wait_for_selector("text=Whoever can sign in to this account at the provider")
    page.fill("#id_password", "a guess")
    page.click("text=Link this account")
    page.wait_for_selector("text=This is not your password.")
    assert not ExternalIdentity.objects.exists()
    page.fill("#id_password", PASSWORD)
    page.click("text=Link this account")
    page.wait_for_selector("text=The account is linked")
    assert ExternalIdentity.objects.get(user=dana).subject == "dana"
    page.context.clear_cookies(name="sessionid")
    page.goto("/sign-in/sso/")
    inside(page)
    assert by_of_last_sign_in() == ("dana", "oidc")


@pytest.mark.parametrize(
    ("query", "sentence", "why"),
    [
        ("state=forged&code=x", "not begun in this browser", "wrong_state"),
        ("code=x", "not begun in this browser", "wrong_state"),
    ],
)
def test_an_answer_that_nobody_asked_for_is_refused(
    open_page: Open, query: str, sentence: str, why: str
) -> None:
    page = open_page(f"/sign-in/sso/return/?{query}")
    page.wait_for_selector(f"text={sentence}")
    assert why_of_last_failure() == why
    assert not Session.objects.filter(user__isnull=False).exists()


def test_what_the_provider_refuses_is_explained_and_a_state_is_spent_once(
    transactional_db: None, site: Site
) -> None:
    with httpx.Client(base_url=site.url, timeout=10) as client:
        for answer, sentence in (
            ("error=access_denied", "refused the sign-in"),
            ("code=never-given", "did not accept the code"),
            ("code=x&iss=https://evil.example", "came from another provider"),
        ):
            begun = client.get("/sign-in/sso/").headers["location"]
            asked = parse_qs(urlsplit(begun).query)
            assert asked["code_challenge_method"] == ["S256"]
            assert len(asked["nonce"][0]) == 32
            back = f"/sign-in/sso/return/?state={asked['state'][0]}&{answer}"
            assert sentence in client.get(back).text
            assert "not begun in this browser, was finished already" in client.get(back).text
            # Another browser has not begun it at all.
            other = client.get("/sign-in/sso/").headers["location"]
            state = parse_qs(urlsplit(other).query)["state"][0]
            stolen = httpx.get(f"{site.url}/sign-in/sso/return/?state={state}&code=x")
            assert (stolen.status_code, "not begun" in stolen.text) == (403, True)
