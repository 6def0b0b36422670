"""Proposals are made while somebody waits: only so many at once on one machine."""

from __future__ import annotations

import fcntl

import pytest
from django.conf import settings

from console.errors import TooMany
from models_registry.services import proposals
from tests import factories
from tests.factories import actor
from tests.models_registry.model_files import plain


@pytest.mark.django_db
def test_no_more_sandboxes_at_once_than_the_machine_has_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proposals, "WAIT_SECONDS", 0.0)
    upload = factories.make_upload(plain().SerializeToString(), "model.onnx")
    dana = actor(factories.people().dana)
    assert proposals.propose_inputs(upload_id=upload.pk, actor=dana)["inputs"]
    folder = settings.CONFIG.home / "proposing"
    held = [(folder / str(number)).open("a") for number in range(proposals.AT_ONCE)]
    try:
        for file in held:
            fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(TooMany) as refused:
            proposals.propose_inputs(upload_id=upload.pk, actor=dana)
        assert (refused.value.code, refused.value.retry_after) == ("proposals_busy", 10)
        held.pop().close()
        assert proposals.propose_inputs(upload_id=upload.pk, actor=dana)["inputs"]
    finally:
        for file in held:
            file.close()
