"""Uploads by the console's own script, and the site on screens of both sizes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.design.site import Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
from tests.console.design_site import CHUNK, READY, gallery, rough, site, site_url  # noqa: F401 - fixtures

# --- upload -------------------------------------------------------------------


def choose(page: Page, data: bytes, name: str = "model.pt") -> None:
    page.eval_on_selector("[data-upload]", "(part, size) => part.dataset.uploadChunk = size", CHUNK)
    page.set_input_files(
        "[data-upload-file]", {"name": name, "mimeType": "application/octet-stream", "buffer": data}
    )


def test_sha256_agrees_with_hashlib_at_every_block_boundary(gallery: Page) -> None:
    lengths = [0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 1000, 70_001]
    digests = gallery.evaluate(
        """async (lengths) => {
            const { Sha256 } = await import('/static/js/sha256.js');
            return lengths.map((length) => {
                const bytes = Uint8Array.from({length}, (_, i) => (i * 7) % 256);
                const hash = new Sha256();
                for (let at = 0; at < length; at += 37) hash.update(bytes.subarray(at, at + 37));
                return hash.hex();
            });
        }""",
        lengths,
    )
    data = [bytes((i * 7) % 256 for i in range(length)) for length in lengths]
    assert digests == [hashlib.sha256(part).hexdigest() for part in data]


def test_an_upload_goes_up_in_chunks_with_its_digest(gallery: Page, site: Site) -> None:
    data = bytes(range(256)) * 4000
    choose(gallery, data)
    gallery.wait_for_selector("[data-upload][data-state=done]", timeout=30_000)
    kept = site.uploads["u1"]
    digest = hashlib.sha256(data).hexdigest()
    assert kept["data"] == data
    assert kept["metadata"] == {"filename": "model.pt", "sha256": digest}
    assert gallery.input_value("input[name=upload]") == "u1"
    assert gallery.inner_text("[data-upload-digest] code") == digest
    assert gallery.evaluate("localStorage.length") == 0


def test_an_upload_goes_on_after_a_fault_of_the_server(rough: Page, site: Site) -> None:
    site.upload_failures.append(503)
    choose(rough, b"x" * 1000)
    rough.wait_for_selector("[data-upload][data-state=done]")
    assert site.uploads["u1"]["data"] == b"x" * 1000


def test_an_upload_resumes_after_a_reload(rough: Page, site: Site) -> None:
    # The browser makes a new file (and time) of the same bytes each time: hold the time still.
    rough.add_init_script(
        "Object.defineProperty(File.prototype, 'lastModified', {get: () => 1700000000000});"
    )
    rough.reload()
    data = bytes(range(256)) * 4000
    calls: list[str] = []

    def once(route: Any) -> None:
        calls.append(route.request.headers["upload-offset"])
        if route.request.headers["upload-offset"] == "0":
            route.continue_()
        else:
            route.abort()

    rough.route(
        "**/api/v1/uploads/u1/", lambda r: once(r) if r.request.method == "PATCH" else r.continue_()
    )
    choose(rough, data)
    rough.wait_for_selector("[data-upload-status]:has-text('Trying again')", timeout=30_000)
    rough.unroute_all()
    rough.once("dialog", lambda dialog: dialog.accept())
    rough.reload()
    rough.wait_for_selector(
        ".upload-hint:has-text('model.pt was uploaded up to 800 KiB of 1,000 KiB')"
    )
    choose(rough, data)
    rough.wait_for_selector("[data-upload][data-state=done]", timeout=30_000)
    assert calls[:2] == ["0", str(CHUNK)]
    assert len(site.uploads) == 1
    assert site.uploads["u1"]["data"] == data


def test_a_refused_upload_says_why_and_what_to_do(gallery: Page, site: Site) -> None:
    site.upload_failures.append(422)
    choose(gallery, b"not a model")
    error = gallery.wait_for_selector("[data-upload-error]:visible")
    assert error is not None
    assert "The upload was refused. Choose another file." in error.inner_text()
    assert gallery.input_value("input[name=upload]") == ""


def test_a_cancelled_upload_leaves_nothing_behind(rough: Page, site: Site) -> None:
    rough.route(
        "**/api/v1/uploads/u1/",
        lambda r: r.abort() if r.request.method == "PATCH" else r.continue_(),
    )
    choose(rough, b"x" * 1000)
    rough.wait_for_selector("[data-upload-status]:has-text('Trying again')")
    rough.click("[data-upload-cancel]")
    rough.wait_for_selector(".toast:has-text('Cancelled')")
    assert site.uploads == {}
    assert rough.evaluate("localStorage.length") == 0
    assert rough.get_attribute("[data-upload]", "data-state") == "idle"


# --- size, keyboard, accessibility --------------------------------------------


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark"), (390, "light")])
def test_the_page_fits_and_has_no_serious_barrier(
    browser: Browser, site_url: str, width: int, scheme: Any
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(
        viewport={"width": width, "height": 840}, color_scheme=scheme, bypass_csp=True
    )
    tab = context.new_page()
    tab.goto(site_url)
    tab.wait_for_selector(READY, state="attached")
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    results = Axe().run(tab)
    serious = [
        (fault["id"], node["target"], node.get("failureSummary", "")[:200])
        for fault in results.response["violations"]
        if fault["impact"] in {"serious", "critical"}
        for node in fault["nodes"]
    ]
    context.close()
    assert serious == []


def test_the_first_tab_skips_to_the_content(gallery: Page) -> None:
    gallery.keyboard.press("Tab")
    assert gallery.evaluate("document.activeElement.className") == "skip-link"
    gallery.keyboard.press("Enter")
    assert gallery.evaluate("document.activeElement.id") == "main"


def test_a_phone_opens_the_drawer_and_the_search(browser: Browser, site_url: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    tab = context.new_page()
    tab.goto(site_url)
    assert not tab.is_visible(".sidenav")
    tab.click(".bottomnav [data-nav-open]")
    tab.click("#nav-drawer >> text=Audit")
    tab.wait_for_url("**/audit-list/")
    tab.goto(site_url)
    tab.click("[data-search-open]")
    assert tab.is_visible("#search-input")
    context.close()
