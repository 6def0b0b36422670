"""The floor in a real browser, on a real web process: live jobs, keys, sign-in, languages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from console.models import Job, SigningKey
from console.services import job_runs
from tests.console.conftest import WebProcess, ask, session_cookie
from tests.factories import PASSWORD, People, make_user

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from console.models import User

# In one place, so that their processes are started once.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("floor-browser")]


def enter(page: Page, web: WebProcess, user: User) -> None:
    cookie = session_cookie(user)["sessionid"]
    page.context.add_cookies([{"name": "sessionid", "value": cookie, "url": web.url}])


def test_a_jobs_page_follows_the_job_and_cancels_it(
    page: Page, steady_web: WebProcess, persons: People
) -> None:
    job = ask("count", persons.dana)
    enter(page, steady_web, persons.dana)
    page.goto(f"{steady_web.url}/jobs/{job.pk}/")
    page.get_by_text("Waits for a worker on the queue control.").wait_for()
    claimed = job_runs.claim(job.pk)
    assert claimed is not None
    run = job_runs.JobRun(claimed)
    run.progress(0.4, "Compare the outputs")
    run.log("max difference 3e-7")
    page.locator(".step-label", has_text="Compare the outputs").wait_for(timeout=5000)
    page.get_by_text("max difference 3e-7").wait_for(timeout=5000)
    assert page.locator("#job-state").inner_text() == "Running"

    page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("a mistake")
    dialog.get_by_role("button", name="Cancel the job").click()
    page.get_by_text("The job was asked to stop").wait_for()
    assert Job.objects.get(pk=job.pk).cancel_requested_at is not None
    with run.transaction():
        job_runs.finish(claimed, job_runs.JobState.CANCELLED, message="Cancelled.")
    page.get_by_role("button", name="Retry").wait_for(timeout=5000)
    page.get_by_role("button", name="Retry").click()
    page.get_by_text("The job is queued again").wait_for()


def test_the_list_of_jobs_shows_a_new_one_by_itself(
    page: Page, steady_web: WebProcess, persons: People
) -> None:
    enter(page, steady_web, persons.vic)
    page.goto(f"{steady_web.url}/jobs/")
    page.get_by_text("No job yet").wait_for()
    # The stream is open when the page says nothing of a lost one and has had its first answer.
    page.wait_for_timeout(500)
    ask("count", persons.dana)
    page.get_by_role("link", name="test_count").wait_for(timeout=5000)


def test_a_key_is_made_in_the_browser_and_enrolled(
    page: Page, steady_web: WebProcess, settings: object
) -> None:
    # The web process hashes as the product does, so this password must too.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]  # type: ignore[attr-defined]
    make_user("dana", "data_scientist", password=PASSWORD)
    page.goto(f"{steady_web.url}/settings/keys/")
    page.get_by_label("User name").fill("dana")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="A new key").wait_for()

    form = page.locator("form[data-signing-create]")
    form.get_by_label("Name").fill("office PC")
    form.get_by_label("Your password").fill("wrong")
    form.get_by_role("button").click()
    form.get_by_text("This is not your password.").wait_for()
    assert not SigningKey.objects.exists()
    form.get_by_label("Your password").fill(PASSWORD)
    form.get_by_role("button").click()
    page.locator("table", has_text="office PC").wait_for()
    key = SigningKey.objects.get()
    assert (key.algorithm, key.origin, key.user.username) == ("ecdsa-p256", "browser", "dana")
    held = page.locator("[data-signing-keys]")
    held.get_by_text("office PC").wait_for()
    assert key.keyid[:12] in held.inner_text()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_no_page_of_the_floor_is_wider_than_its_window(
    page: Page, steady_web: WebProcess, persons: People, width: int, language: str
) -> None:
    job = ask("count", persons.ada)
    enter(page, steady_web, persons.ada)
    page.context.add_cookies(
        [{"name": "django_language", "value": language, "url": steady_web.url}]
    )
    page.set_viewport_size({"width": width, "height": 800})
    places = ["", "keys/", "tokens/", "people/", "people/dana/", "new-person/", "system/"]
    for path in ["/jobs/", f"/jobs/{job.pk}/", "/audit/", *(f"/settings/{p}" for p in places)]:
        page.goto(steady_web.url + path)
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, path
        assert page.locator("html").get_attribute("lang") == language
        assert page.locator("h1").count() == 1, path
        assert re.search(r"\S", page.locator("h1").inner_text())
