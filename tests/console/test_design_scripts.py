"""The scripts of the console in a real Chromium, against a server that speaks their protocols."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from tests.console.design.site import Site

if TYPE_CHECKING:
    from playwright.sync_api import Page
from tests.console.design_site import (  # noqa: F401 - fixtures
    ENDPOINT,
    gallery,
    percents,
    rough,
    set_percent,
    site,
    site_url,
    wait_for_stream,
)

# --- theme, keyboard, copying -------------------------------------------------


def test_the_theme_goes_round_and_stays(gallery: Page, site_url: str) -> None:
    theme = "document.documentElement.dataset.theme ?? ''"
    assert gallery.evaluate(theme) == ""
    gallery.click(".topbar [data-theme-toggle]")
    gallery.click(".topbar [data-theme-toggle]")
    assert gallery.evaluate(theme) == "dark"
    dark = gallery.evaluate("getComputedStyle(document.body).backgroundColor")
    gallery.reload(wait_until="commit")
    gallery.wait_for_selector("main", state="attached")
    assert gallery.evaluate(theme) == "dark"
    assert dark == "rgb(13, 16, 20)"


def test_search_opens_by_key_and_is_walked_by_arrows(gallery: Page) -> None:
    gallery.keyboard.press("/")
    gallery.keyboard.type("fraud")
    gallery.wait_for_selector("#search-results [role=option]")
    gallery.keyboard.press("ArrowDown")
    gallery.keyboard.press("ArrowDown")
    assert gallery.text_content("[aria-selected=true] .search-item-title") == (
        "production/fraud_detector"
    )
    gallery.keyboard.press("Enter")
    gallery.wait_for_url("**/?found=endpoint")
    gallery.keyboard.press("Control+k")
    assert gallery.evaluate("document.activeElement.id") == "search-input"


def test_a_digest_is_copied_whole(gallery: Page) -> None:
    gallery.context.grant_permissions(["clipboard-read", "clipboard-write"])
    gallery.locator("[data-copy]").first.click()
    gallery.wait_for_selector(".toast:has-text('Copied')")
    copied = gallery.evaluate("navigator.clipboard.readText()")
    assert copied == hashlib.sha256(b"covenant").hexdigest()


def test_a_menu_closes_on_escape_and_gives_focus_back(gallery: Page) -> None:
    gallery.click(".menu-summary")
    assert gallery.is_visible(".menu-panel")
    gallery.keyboard.press("Escape")
    assert not gallery.is_visible(".menu-panel")
    assert "menu-summary" in gallery.evaluate("document.activeElement.className")


# --- confirm, guard, toasts ---------------------------------------------------


def test_r_asks_before_it_rolls_back_and_wants_a_reason(gallery: Page, site: Site) -> None:
    gallery.keyboard.press("r")
    gallery.wait_for_selector("dialog#rollback[open]")
    gallery.keyboard.press("Tab")
    gallery.keyboard.press("Tab")
    gallery.keyboard.press("Enter")
    assert site.posts == []
    assert gallery.is_visible("dialog#rollback")
    gallery.fill("#rollback-reason", "v4 answers NaN")
    gallery.click("#rollback button[type=submit]")
    gallery.wait_for_selector("dialog#rollback", state="hidden")
    gallery.wait_for_selector(".toast:has-text('Rolled back')")
    assert site.posts[0]["reason"] == "v4 answers NaN"


def test_r_in_a_text_field_is_a_letter(gallery: Page) -> None:
    gallery.focus("#split-reason")
    gallery.keyboard.press("r")
    assert gallery.input_value("#split-reason") == "r"
    assert not gallery.is_visible("dialog#rollback")


def test_a_refusal_stands_in_the_dialog(gallery: Page) -> None:
    gallery.click("[data-rollback-key]")
    gallery.fill("#rollback-reason", "refuse")
    gallery.click("#rollback button[type=submit]")
    gallery.wait_for_selector("[data-dialog-error]:has-text('Version 3 is not ready.')")
    assert gallery.is_visible("dialog#rollback")
    assert gallery.is_enabled("#rollback button[type=submit]")


def test_a_fault_of_the_server_is_told_in_its_own_words(rough: Page) -> None:
    rough.click("[data-rollback-key]")
    rough.fill("#rollback-reason", "break")
    rough.click("#rollback button[type=submit]")
    toast = rough.wait_for_selector(".toast.tone-bad")
    assert toast is not None
    assert "The gateway does not answer. Try again in a few seconds." in toast.inner_text()


def test_a_double_submit_posts_once(gallery: Page, site: Site) -> None:
    gallery.click("[data-rollback-key]")
    gallery.fill("#rollback-reason", "twice")
    gallery.evaluate(
        "() => { const form = document.querySelector('#rollback form');"
        " form.requestSubmit(); form.requestSubmit(); }"
    )
    gallery.wait_for_selector("dialog#rollback", state="hidden")
    assert len(site.posts) == 1


# --- ages ---------------------------------------------------------------------


def test_a_number_that_grows_old_greys_and_says_so(gallery: Page) -> None:
    fresh = gallery.locator(".stat", has_text="Requests")
    fresh.evaluate(
        "tile => { const then = new Date(Date.now() - 9500).toISOString();"
        " tile.dataset.measuredAt = then; tile.querySelector('time').dateTime = then;"
        " tile.classList.remove('is-stale'); }"
    )
    gallery.wait_for_selector(".stat.is-stale:has-text('Requests')")
    assert "s ago" in fresh.inner_text()


# --- live events --------------------------------------------------------------


def test_an_event_refreshes_what_listens_to_its_topic(gallery: Page, site: Site) -> None:
    wait_for_stream(gallery, site)
    site.publish({"topic": "node:local", "type": "node.changed"})
    site.publish({"topic": ENDPOINT, "type": "mode.changed"})
    gallery.wait_for_selector("#refreshed:has-text('refreshed 1')")
    for _ in range(20):
        site.publish({"topic": ENDPOINT, "type": "mode.changed"})
    gallery.wait_for_selector("#refreshed:has-text('refreshed 2')")
    gallery.wait_for_timeout(700)
    assert site.refreshed <= 4


def test_a_resync_refreshes_everything(gallery: Page, site: Site) -> None:
    wait_for_stream(gallery, site)
    site.revision, site.weights = 15, {"3": 10, "4": 90, "5": 0}
    site.publish({"topic": "*", "type": "resync"})
    gallery.wait_for_selector("#refreshed:has-text('refreshed 1')")
    gallery.wait_for_selector("[data-split-now][aria-label='v3 10 %, v4 90 %']")


def test_a_lost_stream_is_said_and_made_up_for(rough: Page, site: Site) -> None:
    wait_for_stream(rough, site)
    rough.route("**/api/v1/events/*", lambda route: route.abort())
    site.disconnect()
    rough.wait_for_selector("#live-banner:has-text('Live numbers are stale')")
    rough.unroute("**/api/v1/events/*")
    rough.wait_for_selector("#live-banner", state="hidden", timeout=15_000)
    rough.wait_for_selector("#refreshed:has-text('refreshed 1')")


# --- charts -------------------------------------------------------------------


def test_a_chart_is_drawn_under_the_strict_policy_and_has_a_table(
    gallery: Page, site_url: str
) -> None:
    gallery.set_default_timeout(30_000)  # Plotly is 5 MB of script
    gallery.goto(f"{site_url}/?charts")
    chart = gallery.locator("[data-chart-url$='/latency/']")
    chart.locator(".main-svg").first.wait_for()
    assert chart.locator(".scatterlayer .trace").count() == 2
    assert chart.locator(".scatterlayer .js-line").count() == 4  # a gap breaks each line in two
    style = chart.locator(".scatterlayer .js-line").first.get_attribute("style")
    assert "rgb(22, 138, 120)" in str(style)
    assert chart.locator(".shapelayer path").count() == 2
    assert "contract 80 ms" in chart.locator("[data-chart-legend]").inner_text()
    low, high = gallery.evaluate(
        "document.querySelector(\"[data-chart-url$='/latency/'] [data-chart-plot]\")"
        ".layout.yaxis.range"
    )
    assert low == 0
    assert high >= 80
    chart.locator("[data-chart-toggle]").click()
    assert chart.locator("tbody tr").count() == 90
    assert chart.locator("thead th").all_inner_texts() == ["Time", "v3 (ms)", "v4 (ms)"]
    assert not chart.locator("[data-chart-plot]").is_visible()


def test_a_chart_that_cannot_be_loaded_says_why(rough: Page, site: Site, site_url: str) -> None:
    site.chart_status = 503
    rough.goto(f"{site_url}/?charts")
    message = rough.locator("[data-chart-url$='/latency/'] [data-chart-message]")
    message.filter(has_text="The statistics are not available. Try again shortly.").wait_for()


# --- split sliders ------------------------------------------------------------


def test_the_sum_is_always_exactly_one_hundred(gallery: Page) -> None:
    for version, percent in ((4, 33.33), (3, 12.01), (4, 0), (3, 100), (4, 0.01)):
        set_percent(gallery, version, percent)
        assert round(sum(percents(gallery)) * 100) == 10_000
    assert percents(gallery) == [99.99, 0.01, 0]


def test_others_keep_their_proportion(gallery: Page) -> None:
    result = gallery.evaluate(
        """async () => {
            const { moveShare } = await import('/static/js/split-math.js');
            return [
                moveShare({1: 6000, 2: 3000, 3: 1000}, 3, 5500),
                moveShare({1: 10000, 2: 0, 3: 0}, 1, 5000, {base: {1: 7000, 2: 2000, 3: 1000}}),
                moveShare({1: 3333, 2: 3333, 3: 3334}, 1, 0),
                moveShare({1: 9000, 2: 1000}, 1, 0, {caps: {2: 1000}}),
            ];
        }"""
    )
    assert result == [
        {"1": 3000, "2": 1500, "3": 5500},
        {"1": 5000, "2": 3333, "3": 1667},
        {"1": 0, "2": 4999, "3": 5001},
        {"1": 9000, "2": 1000},
    ]


def test_weights_stay_whole_and_complete_whatever_is_moved(gallery: Page) -> None:
    broken = gallery.evaluate(
        """async () => {
            const { moveShare } = await import('/static/js/split-math.js');
            let seed = 7;
            const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
            let weights = {1: 9500, 2: 500, 3: 0, 4: 0, 5: 0};
            const base = {...weights};
            const broken = [];
            for (let i = 0; i < 5000; i += 1) {
                const caps = random(3) ? {} : {3: weights[3], 5: weights[5]};
                const moved = 1 + random(5);
                const wanted = random(10001);
                const before = weights;
                weights = moveShare(weights, moved, wanted, {caps, base});
                const values = Object.values(weights);
                const whole = values.every((w) => Number.isInteger(w) && w >= 0);
                const capped = Object.entries(caps).every(([v, cap]) => weights[v] <= cap);
                const sum = values.reduce((a, b) => a + b, 0);
                if (!whole || !capped || sum !== 10000) broken.push([before, moved, wanted, caps]);
            }
            return broken;
        }"""
    )
    assert broken == []


def test_a_version_that_is_not_ready_cannot_be_raised(gallery: Page) -> None:
    set_percent(gallery, 5, 40)
    assert percents(gallery) == [95, 5, 0]
    status = gallery.inner_text("[data-split-status]")
    assert status == "Version 5 cannot be raised: still loading on node local"


def test_the_slider_follows_the_keyboard_and_shows_what_to_expect(gallery: Page) -> None:
    gallery.focus("[data-split-version='4'] .split-range")
    for _ in range(5):
        gallery.keyboard.press("ArrowRight")
    assert percents(gallery) == [90, 10, 0]
    expected = gallery.inner_text("[data-split-version='4'] [data-split-expected]")
    assert expected == "42/s expected"
    label = gallery.get_attribute("[data-split-new]", "aria-label")
    assert label == "v3 90 %, v4 10 %"


def test_apply_needs_a_reason_then_shows_who_acknowledged(gallery: Page, site: Site) -> None:
    set_percent(gallery, 4, 50)
    gallery.click("[data-split-apply]")
    gallery.wait_for_selector("[data-split-status]:has-text('Say why')")
    assert site.split_requests == []
    gallery.fill("#split-reason", "Error rate is flat")
    gallery.click("[data-split-apply]")
    gallery.wait_for_selector("[data-split-acks]:has-text('embedded: acknowledged after 18 ms')")
    assert site.split_requests == [
        (
            '"12"',
            {
                "sticky_header": "x-user-id",
                "weights": {"3": 50, "4": 50, "5": 0},
                "reason": "Error rate is flat",
            },
        )
    ]
    assert "Revision 13 applied in" in gallery.inner_text("[data-split-status]")
    assert gallery.is_disabled("[data-split-apply]")


def test_a_stale_revision_shows_what_changed_and_offers_it(gallery: Page, site: Site) -> None:
    set_percent(gallery, 4, 50)
    gallery.fill("#split-reason", "go on")
    site.revision, site.weights = 14, {"3": 80, "4": 20, "5": 0}
    gallery.click("[data-split-apply]")
    notice = gallery.locator("[data-split-notice-text]")
    notice.filter(has_text="revision 14 meanwhile: v3 95 → 80 %, v4 5 → 20 %").wait_for()
    assert percents(gallery) == [50, 50, 0]
    gallery.click("[data-split-load]")
    assert percents(gallery) == [80, 20, 0]


def test_a_draft_may_be_kept_over_a_foreign_change(gallery: Page, site: Site) -> None:
    wait_for_stream(gallery, site)
    set_percent(gallery, 4, 50)
    site.revision, site.weights = 13, {"3": 80, "4": 20, "5": 0}
    site.publish({"topic": ENDPOINT, "type": "split.changed", "revision": 13})
    notice = gallery.locator("[data-split-notice-text]")
    notice.filter(has_text="Sam has just moved the traffic (revision 13)").wait_for()
    gallery.click("[data-split-keep]")
    assert percents(gallery) == [50, 50, 0]
    gallery.fill("#split-reason", "still right")
    gallery.click("[data-split-apply]")
    gallery.wait_for_selector("[data-split-status]:has-text('Revision 14 applied')")
    assert site.split_requests[0][0] == '"13"'


def test_a_clean_form_follows_a_foreign_change_at_once(gallery: Page, site: Site) -> None:
    wait_for_stream(gallery, site)
    site.revision, site.weights = 13, {"3": 0, "4": 100, "5": 0}
    site.publish({"topic": ENDPOINT, "type": "split.changed", "revision": 13})
    gallery.wait_for_selector("[data-split-now][aria-label='v4 100 %']")
    assert percents(gallery) == [0, 100, 0]


def test_a_split_that_not_every_gateway_acknowledged_says_which(rough: Page, site: Site) -> None:
    answer: dict[str, Any] = {
        "detail": "Not every gateway has acknowledged.",
        "revision": 13,
        "acknowledgements": [
            {"gateway": "embedded", "outcome": "applied", "took_ms": 21, "reason": ""},
            {"gateway": "edge-2", "outcome": "pending", "took_ms": None, "reason": ""},
        ],
    }
    site.split_answers.append((504, answer))
    wait_for_stream(rough, site)
    set_percent(rough, 4, 50)
    rough.fill("#split-reason", "go on")
    site.revision, site.weights = 13, {"3": 50, "4": 50, "5": 0}
    rough.click("[data-split-apply]")
    rough.wait_for_selector("[data-split-acks]:has-text('edge-2: no answer yet')")
    assert "Revision 13 is stored" in rough.inner_text("[data-split-status]")
    assert percents(rough) == [50, 50, 0]
    late = [{"gateway": "edge-2", "outcome": "applied", "took_ms": 5210, "reason": ""}]
    event = {"type": "split.acknowledged", "revision": 13, "acknowledgements": late}
    site.publish({"topic": ENDPOINT, **event})
    rough.wait_for_selector("[data-split-acks]:has-text('edge-2: acknowledged after 5,210 ms')")
