"""Going past a policy in a real browser: signed here, seen by others at once, reviewed by one."""

from __future__ import annotations

from models_registry.models import BreakGlass, Environment, Release, ReleaseState
from models_registry.services.releases import verify_release
from tests import factories
from tests.browser.conftest import SignIn
from tests.factories import PASSWORD


def test_an_admin_breaks_the_glass_and_an_sre_reviews_it(sign_in: SignIn) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    Environment.objects.update(break_glass_roles=["platform_admin"])
    address = f"/releases/{release.pk}/"
    watching = sign_in("sam", address)
    tab = sign_in("ada", address, width=390)
    tab.click("#break-glass summary")
    tab.click("#glass-sign >> text=Create a key in this browser")
    tab.fill("#new-key-name", "office PC")
    tab.fill("#new-key-password", PASSWORD)
    with tab.expect_navigation():
        tab.click("text=Create and enrol")
    tab.click("#break-glass summary")
    tab.wait_for_selector('#glass-sign [data-signing-state="ready"]')
    tab.fill("#glass-reason", "Card testing attack; v1 lets every tenth case through.")
    tab.fill("#glass-password", PASSWORD)
    tab.click("#glass-sign [type=submit]")
    tab.wait_for_selector("text=Not reviewed yet")
    broken = BreakGlass.objects.select_related("key").get()
    assert (broken.key.name, broken.person.username) == ("office PC", "ada")
    assert verify_release(Release.objects.get()).waived == ("approval_missing",)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390

    watching.wait_for_selector("#glass-review")
    watching.fill("#glass-review", "Justified by the losses; sam looked at the report.")
    watching.click("text=Keep the review")
    watching.wait_for_selector("text=Kept with the release")
    tab.wait_for_selector('#break-glass [data-state="passed"]')
    broken.refresh_from_db()
    assert broken.reviewed_by == factories.people().sam
