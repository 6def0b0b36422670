"""Signing in a real browser: the key stays there, the signature holds here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from console.errors import Invalid
from console.rules.canonical import canonical_bytes, loads_strict
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE, Envelope, accept, pae
from console.rules.signing_keys import parse_public_key
from models_registry.rules.contract_document import load
from tests.browser.signing_server import SigningSite, serving
from tests.models_registry.contract_samples import SAMPLE

if TYPE_CHECKING:
    from playwright.sync_api import Page

DOCUMENT = load(SAMPLE.replace("model_down", "模型不可用 ✓"))


@pytest.fixture
def site() -> Iterator[SigningSite]:
    with serving(SigningSite(payload=DOCUMENT.canonical)) as running:
        yield running


def create_key(page: Page, site: SigningSite) -> None:
    page.goto(f"{site.url}/keys")
    page.click("text=Create")
    page.wait_for_url("**/sign")


def state(page: Page, expected: str) -> None:
    page.wait_for_selector(f'[data-signing-state="{expected}"]')
    assert page.text_content("[data-signing-message]") == f"say {expected}"


def test_a_key_made_in_the_browser_signs_and_the_server_accepts(
    page: Page, site: SigningSite
) -> None:
    create_key(page, site)
    posted = site.posted_keys[0]
    key = parse_public_key(posted["public_key"])
    assert key.algorithm == "ecdsa-p256"
    assert posted["key_id"] == key.key_id
    assert (posted["name"], posted["password"]) == ("Laptop", "pw")
    assert posted["csrfmiddlewaretoken"] == "masked"
    assert site.posted_headers[0]["X-CSRFToken"] == "from-the-page"

    state(page, "ready")
    assert page.text_content("[data-signing-keyid]") == key.key_id
    page.click("text=Sign")
    page.wait_for_selector("text=Signed")
    envelope = Envelope.parse(site.posted_envelopes[0])
    assert len(envelope.signatures[0].sig) == 64
    stored = accept(
        envelope,
        public_key=key,
        payload_type=CONTRACT_PAYLOAD_TYPE,
        payload=DOCUMENT.canonical,
    )
    assert stored.signatures[0].sig[0] == 0x30
    with pytest.raises(Invalid):
        accept(
            envelope,
            public_key=key,
            payload_type=CONTRACT_PAYLOAD_TYPE,
            payload=load(SAMPLE).canonical,
        )


def test_the_private_key_cannot_be_read_by_any_script(page: Page, site: SigningSite) -> None:
    create_key(page, site)
    state(page, "ready")
    said = page.evaluate(
        """async () => {
          const { listKeys } = await import("/static/js/signing-keys.js");
          const [key] = await listKeys("dana");
          try { await crypto.subtle.exportKey("pkcs8", key.privateKey); return "exported"; }
          catch (error) { return error.name; }
        }"""
    )
    assert said == "InvalidAccessError"


def test_a_refused_key_is_forgotten_and_the_reason_shown(page: Page, site: SigningSite) -> None:
    site.refuse_key = True
    page.goto(f"{site.url}/keys")
    page.click("text=Create")
    page.wait_for_selector('[data-signing-state="failed"]')
    shown = page.text_content("[data-signing-message]")
    assert shown == "The password is wrong. Type it again."
    assert page.input_value("[name=password]") == ""
    assert page.is_enabled("text=Create")
    page.goto(f"{site.url}/sign")
    state(page, "no-key")
    assert page.is_disabled("text=Sign")


def test_the_device_s_keys_are_listed_and_forgotten(page: Page, site: SigningSite) -> None:
    create_key(page, site)
    page.goto(f"{site.url}/keys")
    page.wait_for_selector("[data-signing-key]")
    assert page.text_content("[data-signing-slot=name]") == "Laptop"
    assert page.text_content("[data-signing-slot=keyid]") == site.enrolled
    page.click("text=Forget")
    page.wait_for_selector('[data-signing-keys][data-signing-state="no-key"]', state="attached")
    assert page.query_selector("[data-signing-key]") is None


def test_bytes_that_differ_from_what_the_page_shows_are_not_signed(
    page: Page, site: SigningSite
) -> None:
    create_key(page, site)
    state(page, "ready")
    site.payload += b" "
    page.click("text=Sign")
    state(page, "digest-mismatch")
    assert site.posted_envelopes == []
    assert page.is_enabled("text=Sign")


def test_a_payload_that_does_not_come_is_said(page: Page, site: SigningSite) -> None:
    create_key(page, site)
    state(page, "ready")
    site.payload_status = 403
    page.click("text=Sign")
    state(page, "fetch-failed")
    assert site.posted_envelopes == []


@pytest.mark.parametrize("expected", ["revoked", "not-enrolled"])
def test_a_key_that_may_not_sign_is_not_offered(
    page: Page, site: SigningSite, expected: str
) -> None:
    create_key(page, site)
    site.revoked = site.enrolled if expected == "revoked" else ""
    site.enrolled = ""
    page.goto(f"{site.url}/sign")
    state(page, expected)
    assert page.is_disabled("text=Sign")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("Object.defineProperty(globalThis, 'indexedDB', {value: undefined})", "no-storage"),
        (
            "IDBFactory.prototype.open = () => { throw new DOMException('no', 'SecurityError') }",
            "no-storage",
        ),
        ("Object.defineProperty(crypto, 'subtle', {value: undefined})", "no-crypto"),
    ],
)
def test_a_browser_that_cannot_sign_says_why(
    page: Page, site: SigningSite, script: str, expected: str
) -> None:
    page.add_init_script(script)
    page.goto(f"{site.url}/sign")
    state(page, expected)
    assert page.is_disabled("text=Sign")
    page.goto(f"{site.url}/keys")
    page.click("text=Create")
    page.wait_for_selector(f'form[data-signing-state="{expected}"]')
    assert page.text_content("[data-signing-message]") == f"say {expected}"


def test_pae_is_the_same_in_both_languages(page: Page, site: SigningSite) -> None:
    page.goto(f"{site.url}/sign")
    for kind, payload in (("http://example.com/HelloWorld", b"hello world"), ("é/模型", b"\0\xff")):
        made = page.evaluate(
            """async ([kind, payload]) => {
              const { pae } = await import("/static/js/signing-keys.js");
              return Array.from(pae(kind, new Uint8Array(payload)));
            }""",
            [kind, list(payload)],
        )
        assert bytes(made) == pae(kind, payload)


def test_numbers_are_written_as_a_javascript_engine_writes_them(
    page: Page, site: SigningSite
) -> None:
    """RFC 8785 builds on ECMAScript's number text: a real engine is the second implementation."""
    page.goto(f"{site.url}/sign")
    seeds = [1.1 * 10.0**exponent for exponent in range(-30, 40)]
    numbers = [s * f for s in seeds for f in (1, -1 / 3, 0.7)] + [5e-324, 1.7976931348623157e308]
    engine = page.evaluate("numbers => JSON.stringify(numbers)", numbers)
    assert canonical_bytes(numbers).decode() == engine
    exact = [n for n in numbers if not 2**53 < abs(n) < 1e21]
    assert loads_strict(canonical_bytes(exact)) == exact
