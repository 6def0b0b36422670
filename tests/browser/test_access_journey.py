"""A caller is registered, given a key and let in by a policy, in a real browser."""

from __future__ import annotations

import re

from deployments.models import AccessPolicy, CallerKey
from deployments.rules.access.caller_keys import digest_of
from tests import factories
from tests.browser.conftest import SignIn
from tests.deployments.conftest import Fleet, fleet_rows, ready_version  # noqa: F401 - a fixture


def test_a_caller_gets_a_key_and_a_policy_lets_it_in(
    sign_in: SignIn,
    fleet_rows: Fleet,
) -> None:
    ready_version(fleet_rows, factories.make_version())
    tab = sign_in("sam", "/environments/production/callers/", width=390)
    tab.fill("#id_name", "billing")
    tab.fill("#id_contact", "billing@example.com")
    tab.click("text=Register >> nth=-1")
    tab.wait_for_selector("h1:has-text('billing')")
    tab.click("button:has-text('Make a key')")
    key = tab.inner_text(".code code").strip()
    assert re.fullmatch(r"cvk_[a-z2-7]{8}_[\w-]{32}", key)
    assert CallerKey.objects.get().digest == digest_of(key)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390

    tab.goto("/endpoints/production/fraud_detector/access/")
    tab.check("#id_required")
    tab.fill("#id_allow_callers", "billing")
    tab.fill("#id_reason", "Only billing calls it.")
    tab.click("text=Put it in force")
    tab.wait_for_selector("text=Nobody could call")
    tab.check("#id_api_key")
    tab.click("text=Put it in force")
    tab.wait_for_selector("text=403 caller_not_allowed")
    assert AccessPolicy.objects.get().document["allow"]["callers"] == ["billing"]
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390

    tab.goto("/environments/production/callers/billing/")
    tab.click("button:has-text('Revoke')")
    tab.fill("dialog[open] textarea", "It was in a log.")
    tab.click("dialog[open] button[type=submit]")
    tab.wait_for_selector("text=opens nothing any more")
    assert CallerKey.objects.get().revoked_at is not None
