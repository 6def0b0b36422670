"""How a release is locked, named, decided, written down and told of."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from console import live
from console.actors import Actor
from console.models import User
from console.services import audit, notices
from models_registry.models import Release, ReleaseState
from models_registry.rules.releases import check_move


def subject_of(release: Release) -> str:
    """How audit entries name the release."""
    return f"{release.version.model.name} release {release.pk}"


def url_of(release: Release) -> str:
    """The release's page."""
    return f"/releases/{release.pk}/"


def lapse_key(release: Release) -> str:
    """The key of the notice that an approval of the release lapsed."""
    return f"release.approval_lapsed:{release.pk}"


def no_approver(release: Release) -> str:
    """The cause under which somebody is told that nobody can approve the release."""
    return f"release:{release.pk}:no_approver"


def lock_release(release: Release) -> Release:
    """The release's row, locked until the caller's transaction ends."""
    return (
        Release.objects.select_for_update(of=("self",))
        .select_related("environment", "version__model", "version__created_by")
        .select_related("contract__model", "requested_by")
        .get(pk=release.pk)
    )


def decide(release: Release, state: ReleaseState, actor: Actor, *, reason: str = "") -> None:
    """Move the locked release to its decision, with the audit entry."""
    check_move(release.state, state, f"The release of {release}")
    before, release.state = release.state, state
    release.decided_at = timezone.now()
    release.save(update_fields=["state", "decided_at"])
    notices.end(key=no_approver(release))
    record(
        release,
        f"release.{state}",
        actor,
        before={"state": before},
        after={"state": state, "version": str(release.version)},
        reason=reason,
    )


def record(
    release: Release,
    action: str,
    actor: Actor,
    *,
    before: Any = None,
    after: Any = None,
    reason: str = "",
) -> None:
    """The audit entry of an act on the release."""
    audit.record(
        actor=actor,
        action=action,
        subject=subject_of(release),
        subject_url=url_of(release),
        before=before,
        after=after,
        reason=reason,
    )


def publish(release: Release) -> None:
    """Tell viewers of the release, its model and version, and those whose word is asked for."""
    model = release.version.model.name
    data = {
        "id": str(release.pk),
        "state": release.state,
        "model": model,
        "number": release.version.number,
        "environment": release.environment.name,
    }
    for topic in (f"release:{release.pk}", f"model:{model}", f"version:{model}/{data['number']}"):
        live.publish(topic, "release.changed", data)
    holds = User.objects.filter(is_active=True, roles__overlap=release.required_roles or [""])
    for username in {release.requested_by.username, *holds.values_list("username", flat=True)}:
        live.publish(f"inbox:{username}", "inbox.changed")
