"""Telling who asked for a release that its approvals have become too old."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef

from console.models import Severity
from console.services import notices
from models_registry.models import Release, ReleaseState
from models_registry.selectors.load_tests import ended_runs
from models_registry.selectors.release_policies import verdict_of, with_standing
from models_registry.services.release_records import lapse_key, url_of


def tell_of_lapses(*, now: datetime) -> int:
    """Tell the requester, once, of each newest approved release whose approvals lapsed.

    What was released after it needs no word about it. Gives how many were told.
    """
    newer = Release.objects.filter(
        version__model=OuterRef("version__model"),
        environment=OuterRef("environment"),
        state=ReleaseState.APPROVED,
        requested_at__gt=OuterRef("requested_at"),
    )
    approved = Release.objects.filter(
        ~Exists(newer),
        state=ReleaseState.APPROVED,
        environment__approval_valid_days__isnull=False,
    )
    told = 0
    for release in with_standing(approved).prefetch_related(ended_runs()):
        lapsed = [one.person for rule in verdict_of(release, now).approvals for one in rule.lapsed]
        if not lapsed or verdict_of(release, now).approved:
            continue
        with transaction.atomic():
            told += notices.notify(
                people=[release.requested_by],
                kind="release.approval_lapsed",
                key=lapse_key(release),
                subject=str(release),
                subject_url=url_of(release),
                severity=Severity.WARNING,
                data={
                    "version": str(release.version),
                    "environment": release.environment.name,
                    "people": list(dict.fromkeys(lapsed)),
                    "days": release.environment.approval_valid_days,
                },
            )
    return told
