"""A module's source that writes the program's result itself: its words are taken for what they are.

It may say of its own model what it likes; it may not break a job, a page or the API with it.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from console.models import Job, JobState, User
from models_registry import tasks
from models_registry.exporting.protocol import ExportFacts
from models_registry.models import ModelVersion, VersionState
from models_registry.services import versions
from models_registry.services.proposals import propose_inputs
from tests import factories
from tests.factories import actor

FORGE = """
import hashlib, json, os
import torch

class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(3, 1)
        open("/box/work/model.onnx", "wb").write(b"x" * 100)
        document = json.loads({document!r})
        if isinstance(document.get("answer"), dict):
            document["answer"]["sha256"] = hashlib.sha256(b"x" * 100).hexdigest()
        open("/box/work/result.json", "w").write(json.dumps(document))
        os._exit(0)
"""
FACTS = ExportFacts((), (), 0, 17, 8, {}, 1, 100, "", "x", "y").to_json()


def uploads(document: dict[str, Any]) -> dict[str, Any]:
    import torch

    buffer = io.BytesIO()
    torch.save(torch.nn.Linear(3, 1).state_dict(), buffer)
    source = FORGE.format(document=json.dumps(document)).encode()
    return {
        "upload_id": factories.make_upload(buffer.getvalue(), "weights.pt").pk,
        "code_upload_id": factories.make_upload(source, "net.py").pk,
        "module_entry": "net.py:Net",
    }


def exported(document: dict[str, Any], dana: User) -> tuple[ModelVersion, Job]:
    version, job = versions.create_version(
        model=factories.make_model(),
        inputs=[{"name": "x", "dtype": "FP32", "dims": ["batch", 3]}],
        actor=actor(dana),
        **uploads(document),
    )
    tasks.export_version(str(job.pk))
    version.refresh_from_db()
    job.refresh_from_db()
    return version, job


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"outcome": "ok", "answer": {}}, "export_inconsistent"),
        ({"outcome": "ok", "answer": FACTS | {"operators": 5}}, "export_inconsistent"),
        ({"outcome": "ok", "answer": FACTS | {"warnings": ["w" * 1000] * 5000}},
         "export_inconsistent"),
        ({"outcome": "refused", "code": "x" * 3000, "message": "m"}, "program_crashed"),
    ],
    ids=["nothing", "a number for a mapping", "five megabytes", "a code that no column holds"],
)  # fmt: skip
def test_a_forged_result_rejects_the_version_and_ends_the_job(
    document: dict[str, Any], code: str
) -> None:
    version, job = exported(document, factories.people().dana)
    assert (job.state, job.error_code) == (JobState.FAILED, code), job.error_message
    assert version.state == VersionState.REJECTED
    assert len(version.rejection) < 500
    assert version.facts == {}


@pytest.mark.django_db
@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"inputs": [5], "outputs": [], "notes": []},
        {"inputs": [{"name": "x", "dtype": "<b>", "shape": [1]}], "outputs": [], "notes": []},
    ],
)
def test_a_forged_proposal_proposes_nothing_and_says_why(answer: dict[str, Any]) -> None:
    dana = factories.people().dana
    asked = uploads({"outcome": "ok", "answer": answer})
    found = propose_inputs(**asked, actor=actor(dana))
    assert (found["inputs"], found["outputs"]) == ([], [])
    assert "cannot be read" in found["notes"][0]
