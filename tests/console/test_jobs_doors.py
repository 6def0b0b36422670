"""Jobs by API and page."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from console.models import Job, JobState, User
from console.services import job_runs
from console.services.jobs import add_line
from tests.console import worker_app
from tests.console.conftest import ask
from tests.factories import People

pytestmark = pytest.mark.django_db


def make(user: User, state: str = JobState.QUEUED, **fields: object) -> Job:
    job = ask("count", user)
    Job.objects.filter(pk=job.pk).update(state=state, **fields)
    job.refresh_from_db()
    return job


def test_the_api_lists_jobs_by_filter_newest_first(
    persons: People, api: Callable[[User], APIClient]
) -> None:
    first = make(persons.dana, subject="fraud_detector v3")
    second = make(persons.sam, JobState.FAILED, subject="churn v1", error_message="Too big.")
    third = make(persons.dana, JobState.RUNNING)
    client = api(persons.vic)

    def ids(query: str = "") -> list[str]:
        return [job["id"] for job in client.get(f"/api/v1/jobs/{query}").json()["results"]]

    assert ids() == [str(job.pk) for job in (third, second, first)]
    assert ids("?state=failed") == [str(second.pk)]
    assert ids("?state=active") == [str(third.pk), str(first.pk)]
    assert ids("?state=ended_badly") == [str(second.pk)]
    assert ids("?person=dana") == [str(third.pk), str(first.pk)]
    assert ids("?subject=fraud_detector") == [str(first.pk)]
    assert ids("?kind=export") == []
    assert ids("?q=too+big") == [str(second.pk)]
    page = client.get("/api/v1/jobs/?limit=2").json()
    rest = client.get(page["next"]).json()
    assert [job["id"] for job in page["results"] + rest["results"]] == ids()


def test_the_api_shows_a_job_with_its_log_and_its_error(
    persons: People, api: Callable[[User], APIClient]
) -> None:
    job = ask("refuse", persons.dana)
    job_runs.run_job(str(job.pk), worker_app.HANDLERS["test_refuse"])
    shown = api(persons.vic).get(f"/api/v1/jobs/{job.pk}/").json()
    assert shown["state"] == "failed"
    assert shown["error"] == {
        "code": "not_a_model",
        "message": "The file is no model.",
        "hint": "Upload another.",
    }
    assert shown["requested_by"] == "dana"
    assert [line["text"].split(" on ")[0] for line in shown["lines"]] == [
        "Attempt 1 starts",
        "The file is no model.",
    ]
    assert api(persons.vic).get(f"/api/v1/jobs/{uuid.uuid4()}/").status_code == 404


def test_the_api_cancels_and_retries_for_those_who_may(
    persons: People, api: Callable[[User], APIClient]
) -> None:
    job = make(persons.dana)
    cancel, retry = f"/api/v1/jobs/{job.pk}/cancel/", f"/api/v1/jobs/{job.pk}/retry/"
    refused = api(persons.vic).post(cancel, {}, format="json")
    assert (refused.status_code, refused["Content-Type"]) == (403, "application/problem+json")
    owner = api(persons.dana)
    done = owner.post(cancel, {"reason": "a mistake"}, format="json")
    assert (done.status_code, done.json()["state"]) == (200, "cancelled")
    again = owner.post(cancel, {}, format="json")
    assert (again.status_code, again.json()["code"]) == (409, "job_ended")
    assert owner.post(retry).json()["state"] == "queued"
    assert owner.post(retry).json()["code"] == "job_not_retryable"
    assert owner.post(f"/api/v1/jobs/{uuid.uuid4()}/cancel/").status_code == 404


def test_the_list_page_filters_and_gives_its_fragment_alone(
    persons: People, signed_in: Callable[[User], Client]
) -> None:
    make(persons.dana, subject="fraud_detector v3")
    make(persons.sam, JobState.FAILED, subject="churn v1", error_message="Too big.")
    client = signed_in(persons.vic)
    whole = client.get("/jobs/").content.decode()
    assert "fraud_detector v3" in whole
    assert "Too big." in whole
    assert 'data-live-topics="jobs"' in whole
    failed = client.get("/jobs/?state=failed").content.decode()
    assert "fraud_detector v3" not in failed
    assert "No job matches" in client.get("/jobs/?q=nothing").content.decode()
    fragment = client.get("/jobs/?state=failed", headers={"HX-Request": "true"}).content.decode()
    assert fragment.strip().startswith('<section class="card" id="job-list"')
    assert 'hx-get="/jobs/?state=failed"' in fragment
    Job.objects.all().delete()
    assert "No job yet" in client.get("/jobs/").content.decode()


@pytest.mark.parametrize("state", JobState.values)
def test_the_page_of_a_job_in_each_state(
    persons: People, signed_in: Callable[[User], Client], state: str
) -> None:
    bad = state in {"failed", "errored"}
    job = make(
        persons.dana,
        state,
        attempt=1,
        started_at=timezone.now() - timedelta(seconds=9),
        step="Compare",
        progress=0.4,
        error_message="Outputs differ." if bad else "",
        error_hint="Look at output 1." if bad else "",
        error_code="outputs_differ" if bad else "",
        result={"figure": 1} if state == "succeeded" else None,
        finished_at=None if state in {"queued", "running"} else timezone.now(),
    )
    add_line(job, "Read the file", level="step")
    add_line(job, "Compare", level="step")
    owner = signed_in(persons.dana).get(f"/jobs/{job.pk}/").content.decode()
    assert "Read the file" in owner
    assert ("Outputs differ." in owner and "Look at output 1." in owner) == bad
    assert (f"/jobs/{job.pk}/retry/" in owner) == (state in {"failed", "errored", "cancelled"})
    assert ('data-confirm="cancel-job"' in owner) == (state in {"queued", "running"})
    reader = signed_in(persons.vic).get(f"/jobs/{job.pk}/").content.decode()
    assert f"/jobs/{job.pk}/retry/" not in reader
    assert 'data-confirm="cancel-job"' not in reader
    fragment = signed_in(persons.dana).get(
        f"/jobs/{job.pk}/", headers={"HX-Request": "true"}
    ).content.decode()  # fmt: skip
    assert "<html" not in fragment
    assert fragment.count('hx-swap-oob="true"') == 2


def test_the_page_cancels_and_retries_and_says_what_became_of_it(
    persons: People, signed_in: Callable[[User], Client]
) -> None:
    job = make(persons.dana)
    client = signed_in(persons.dana)
    done = client.post(f"/jobs/{job.pk}/cancel/", {"reason": "a mistake"}, follow=True)
    assert "The job is cancelled." in done.content.decode()
    again = client.post(f"/jobs/{job.pk}/cancel/", follow=True).content.decode()
    assert "has already ended" in again
    by_htmx = client.post(f"/jobs/{job.pk}/cancel/", headers={"HX-Request": "true"})
    assert (by_htmx.status_code, by_htmx.json()["code"]) == (409, "job_ended")
    queued = client.post(f"/jobs/{job.pk}/retry/", follow=True).content.decode()
    assert "queued again" in queued
    assert signed_in(persons.vic).post(f"/jobs/{job.pk}/cancel/").status_code == 403
    assert client.get(f"/jobs/{job.pk}/cancel/").status_code == 405
    assert client.get(f"/jobs/{uuid.uuid4()}/").status_code == 404


def test_what_a_job_says_is_never_markup(
    persons: People, signed_in: Callable[[User], Client]
) -> None:
    job = make(persons.dana, JobState.FAILED, subject="<script>x</script>", attempt=1)
    add_line(job, "<img src=x onerror=y>\0", level="step")
    page = signed_in(persons.dana).get(f"/jobs/{job.pk}/").content.decode()
    assert "<script>x" not in page
    assert "<img src=x" not in page


@pytest.mark.parametrize("address", ["/jobs/", "/api/v1/jobs/?limit=100"])
def test_many_jobs_take_as_many_queries_as_few(
    persons: People,
    signed_in: Callable[[User], Client],
    django_assert_max_num_queries: Callable[..., object],
    address: str,
) -> None:
    client = signed_in(persons.ada)

    def count() -> int:
        with django_assert_max_num_queries(8) as counted:  # type: ignore[attr-defined]
            client.get(address)
        return len(counted)

    make(persons.dana)
    few = count()
    for _ in range(30):
        make(persons.sam)
    assert count() == few


def test_a_log_of_any_length_takes_one_query_and_shows_its_end(
    persons: People,
    signed_in: Callable[[User], Client],
    django_assert_max_num_queries: Callable[..., object],
) -> None:
    job = make(persons.dana, JobState.RUNNING, attempt=1)
    for number in range(520):
        add_line(job, f"line {number}.")
    client = signed_in(persons.dana)
    with django_assert_max_num_queries(6):  # type: ignore[attr-defined]
        page = client.get(f"/jobs/{job.pk}/").content.decode()
    assert "line 519." in page
    assert "line 19." not in page


def test_refusals_name_their_fields(persons: People, api: Callable[[User], APIClient]) -> None:
    job = make(persons.dana)
    answer = api(persons.dana).post(
        f"/api/v1/jobs/{job.pk}/cancel/", {"reason": "x" * 501}, format="json"
    )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/reason"
