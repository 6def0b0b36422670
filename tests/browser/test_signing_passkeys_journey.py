"""Passkeys as signers, in Chromium with its virtual authenticator; and keys that go missing.

The site is reached as http://localhost: a passkey belongs to a name, never to an address.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from console.errors import Invalid
from console.models import AuditEntry, SigningKey
from console.rules.dsse import Envelope, verify
from console.services.key_rows import public_key
from console.stack import process
from models_registry.models import (
    ContractSignature,
    ContractState,
    ReleaseApproval,
    ReleaseState,
    ServiceContract,
)
from models_registry.rules.bundles import verify_bundle
from models_registry.services.contract_checks import verify_in_force
from models_registry.services.contracts import contract_bundle, sign_contract, url_of
from tests import factories, stack
from tests.console.conftest import launch_web, session_cookie
from tests.factories import PASSWORD, actor
from tests.models_registry import signing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page

Visit = Callable[[str, str], "Page"]


@pytest.fixture(scope="module")
def site(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = stack.free_port()
    url = f"http://localhost:{port}"
    folder = tmp_path_factory.mktemp("web")
    web = launch_web(folder, "console.asgi:application", port, COVENANT_BASE_URL=url)
    yield url
    process.stop(web.child, signal.SIGKILL, seconds=5)


@pytest.fixture
def visit(transactional_db: None, site: str, browser: Browser) -> Iterator[Visit]:
    """`visit("dana", "/")`: a browser of that person's own."""
    factories.people(password=PASSWORD)
    contexts, faults = [], []

    def enter(name: str, address: str) -> Page:
        context = browser.new_context(base_url=site, locale="en-GB")
        context.set_default_timeout(15_000)
        contexts.append(context)
        cookies = session_cookie(getattr(factories.people(), name))
        context.add_cookies([{"name": k, "value": v, "url": site} for k, v in cookies.items()])
        tab = context.new_page()
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.goto(address)
        return tab

    yield enter
    for context in contexts:
        context.close()
    assert faults == []


def authenticator(tab: Page) -> tuple[CDPSession, str]:
    cdp = tab.context.new_cdp_session(tab)
    cdp.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "usb",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    made = cdp.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return cdp, made["authenticatorId"]


def enrol_passkey(tab: Page, name: str = "blue key") -> SigningKey:
    form = "[data-signing-passkey]"
    tab.fill(f"{form} [name=name]", name)
    tab.fill(f"{form} [name=password]", PASSWORD)
    tab.click(f"{form} [type=submit]")
    tab.wait_for_selector(f"td a:text-is('{name}')")
    return SigningKey.objects.get(name=name)


def open_contract() -> ServiceContract:
    """A proposal that two seats have signed: the third puts it in force."""
    model = factories.make_model()
    contract = factories.make_contract(model, state=ContractState.PROPOSED)
    for person in (factories.people().sam, factories.people().bea):
        signing.enrol(person)
        envelope = signing.contract_envelope(person, bytes(contract.payload))
        sign_contract(contract=contract, envelope=envelope, actor=actor(person))
    return contract


def test_a_passkey_is_enrolled_and_signs_a_seat_and_approves(visit: Visit) -> None:
    contract = open_contract()
    tab = visit("dana", "/settings/keys/")
    _cdp, _ = authenticator(tab)
    key = enrol_passkey(tab)
    assert (key.origin, key.rp_id) == ("passkey", "localhost")
    tab.goto(url_of(contract))
    tab.wait_for_selector('[data-signing-sign][data-signing-state="ready"]')
    assert tab.text_content("[data-signing-keyid]") == key.keyid
    tab.click("text=Sign the contract")
    tab.wait_for_selector('#contract-state [data-state="in_force"]')
    contract.refresh_from_db()
    assert verify_in_force(contract) == ()
    signature = ContractSignature.objects.get(signer__username="dana")
    assert set(signature.envelope["signatures"][0]["webauthn"]) == {
        "authenticatorData",
        "clientDataJSON",
    }
    before = key.sign_count
    key.refresh_from_db()
    assert key.sign_count > before
    # Offline: the bundle says which of its keys is a passkey, and of which site.
    report = verify_bundle(contract_bundle(contract))
    assert report.ok, report.faults
    assert any("a passkey of localhost" in finding.text for finding in report.findings)
    # The same envelope is none for another revision, even with its payload put in the place.
    sent = Envelope.parse(signature.envelope)
    with pytest.raises(Invalid) as refused:
        verify(replace(sent, payload=sent.payload.replace(b"80", b"90")), public_key(key))
    assert refused.value.code == "passkey_other_challenge"

    release = factories.make_release(state=ReleaseState.PROPOSED)
    sre = visit("sam", "/settings/keys/")
    authenticator(sre)
    enrol_passkey(sre, "key on my ring")
    sre.goto(f"/releases/{release.pk}/")
    sre.click("text=Approve the release")
    sre.wait_for_selector('#release-state [data-state="approved"]')
    approval = ReleaseApproval.objects.select_related("key").get(release=release)
    assert approval.key is not None
    assert approval.key.origin == "passkey"


def test_a_device_that_does_not_know_its_owner_signs_nothing(visit: Visit) -> None:
    contract = open_contract()
    tab = visit("dana", "/settings/keys/")
    cdp, device = authenticator(tab)
    enrol_passkey(tab)
    cdp.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": False})
    tab.goto(url_of(contract))
    tab.click("text=Sign the contract")
    tab.wait_for_selector('[data-signing-sign][data-signing-state="cancelled"]')
    assert "Nothing was signed" in (tab.text_content("[data-signing-message]") or "")
    assert contract.signatures.count() == 2


def test_the_old_key_of_a_browser_vouches_for_the_new_one(visit: Visit) -> None:
    tab = visit("dana", "/settings/keys/")
    form = "[data-signing-create]"
    tab.fill(f"{form} [name=name]", "old")
    tab.fill(f"{form} [name=password]", PASSWORD)
    tab.click(f"{form} [type=submit]")
    tab.wait_for_selector("td a:text-is('old')")
    old = SigningKey.objects.get()
    tab.goto(f"/settings/keys/?replaces={old.keyid}")
    tab.wait_for_selector("text=no password is needed")
    tab.fill(f"{form} [name=name]", "new")
    tab.click(f"{form} [type=submit]")
    tab.wait_for_selector("td a:text-is('new')")
    new = SigningKey.objects.get(name="new")
    old.refresh_from_db()
    assert (new.replaces, old.revocation) == (old, "replaced")
    rotation = AuditEntry.objects.get(action="key.rotate").after["rotation"]
    assert {one["keyid"] for one in rotation["signatures"]} == {old.keyid, new.keyid}


def test_a_browser_that_lost_its_key_says_so_and_leads_on(visit: Visit) -> None:
    contract = open_contract()
    dana = factories.people().dana
    lost = signing.enrol(dana, p256=True)
    tab = visit("dana", url_of(contract))
    tab.wait_for_selector('[data-signing-sign][data-signing-state="elsewhere"]')
    assert "the key is lost" in (tab.text_content("[data-signing-message]") or "")
    tab.click("text=See my keys")
    tab.click("text=I lost this key")
    tab.wait_for_selector("text=What became of this key?")
    assert "Nothing that is in force" in (tab.text_content("#key-effects") or "")
    tab.fill("[name=reason]", "The browser was cleared.")
    tab.click("text=Revoke the key")
    tab.wait_for_selector("text=It signs nothing new.")
    tab.click("main >> text=Enrol another in its place")
    tab.fill("[data-signing-create] [name=name]", "office PC")
    tab.fill("[data-signing-create] [name=password]", PASSWORD)
    tab.click("[data-signing-create] [type=submit]")
    tab.wait_for_selector("td a:text-is('office PC')")
    lost.refresh_from_db()
    assert (lost.revocation, SigningKey.objects.get(name="office PC").replaces) == ("lost", lost)


def test_what_a_compromised_key_does_is_shown_before_it_is_revoked(visit: Visit) -> None:
    model = factories.make_model()
    contract = factories.make_contract(model)
    signature = ContractSignature.objects.get(signer__username="dana")
    tab = visit("dana", f"/settings/keys/{signature.key.keyid}/revoke/")
    assert "Stays valid" in (tab.text_content("#key-effects") or "")
    tab.check("[name=kind][value=compromised]")
    tab.wait_for_selector("#key-effects >> text=No longer counts")
    later = timezone.now() + timedelta(minutes=2)
    tab.fill("[name=doubted_from]", f"{later:%Y-%m-%dT%H:%M}")
    tab.wait_for_selector("#key-effects >> text=Stays valid")
    earlier = signature.signed_at - timedelta(hours=1)
    tab.fill("[name=doubted_from]", f"{earlier:%Y-%m-%dT%H:%M}")
    tab.fill("[name=reason]", "Somebody had the laptop.")
    tab.click("text=Revoke the key")
    tab.wait_for_selector("text=no longer counts")
    with pytest.raises(Invalid) as refused:
        verify_in_force(contract)
    assert refused.value.code == "key_doubted"
