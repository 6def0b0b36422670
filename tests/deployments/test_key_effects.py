"""What serves by a key's signature is named before the key is revoked."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from console.models import SigningKey
from console.services.keys import effects_of
from deployments.models import Deployment
from deployments.services.fleet.deploys import generation_for
from models_registry.models import ReleaseApproval
from tests import factories

pytestmark = pytest.mark.django_db


def test_a_deployment_that_serves_is_named_until_it_is_removed() -> None:
    release = factories.make_release()
    with transaction.atomic():
        generation = generation_for(release.version)
    deployment = Deployment.objects.create(
        release=release, generation=generation, requested_by=factories.people().sam
    )
    approval = ReleaseApproval.objects.get(release=release)
    key = SigningKey.objects.get(pk=approval.key_id)

    (live,) = (one for one in effects_of(key) if one.kind == "live")
    assert (live.url, live.outcome) == (f"/deployments/{deployment.pk}/", "stays_valid")
    doubted = effects_of(key, approval.at - timedelta(days=1))
    assert {one.kind for one in doubted} >= {"live", "release"}
    assert {one.outcome for one in doubted} == {"no_longer_counts"}

    Deployment.objects.update(removed_at=timezone.now())
    assert "live" not in [one.kind for one in effects_of(key)]
