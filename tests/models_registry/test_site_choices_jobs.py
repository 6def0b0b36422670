"""What a site may allow: operator libraries and pickled modules, from upload to page."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnxruntime_extensions
import pytest
import torch
from onnx import TensorProto
from pytest_django import Settings

from console.errors import Invalid
from models_registry import tasks
from models_registry.adapters import triton_config
from models_registry.models import ModelVersion, VersionState
from models_registry.services import artifacts, versions
from models_registry.services.triton_settings import render_config
from tests import factories
from tests.factories import actor
from tests.models_registry.browsing import Visitor
from tests.models_registry.model_files import graph, node, value

pytestmark = pytest.mark.django_db(transaction=True)
LIBRARY = Path(onnxruntime_extensions.get_library_path())

NET = b"""
import torch

class Score(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 1)

    def forward(self, features):
        return self.layer(features)
"""


def exported(**fields: Any) -> ModelVersion:
    """A version of an upload, after its export."""
    version, job = versions.create_version(actor=actor(factories.people().dana), **fields)
    tasks.export_version(str(job.pk))
    version.refresh_from_db()
    return version


def test_a_graph_that_needs_a_library_of_the_site_names_it_in_its_config(
    settings: Settings,
) -> None:
    factories.people()
    upper = graph(
        [node("StringUpper", ["words"], ["upper"], domain="ai.onnx.contrib")],
        [value("words", ["batch", 1], TensorProto.STRING)],
        [value("upper", ["batch", 1], TensorProto.STRING)],
        domains=[("ai.onnx.contrib", 1)],
    )
    model, upload = factories.make_model(), factories.make_upload(upper.SerializeToString())
    settings.CONFIG = replace(settings.CONFIG, custom_op_libraries=(LIBRARY,))

    version = exported(model=model, upload_id=upload.pk)
    assert version.validate_job is not None
    tasks.validate_version(str(version.validate_job.pk))
    version.refresh_from_db()

    assert version.state == VersionState.VALIDATED, version.rejection
    assert version.config is not None
    config = triton_config.parse(artifacts.read_bytes(version.config).decode())
    assert list(config.model_operations.op_library_filename) == [str(LIBRARY)]
    settings.CONFIG = replace(settings.CONFIG, custom_op_libraries=())
    with pytest.raises(Invalid, match="no longer offers"):
        render_config(version, mean_latency_ms=None, sample=None)


def test_a_pickled_module_is_taken_where_the_site_allows_it_and_says_so_for_ever(
    settings: Settings,
) -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(NET, "net.py", "exec"), scope)
    main = __import__("sys").modules["__main__"]
    main.Score = scope["Score"]  # type: ignore[attr-defined] # as a script's own class is pickled
    buffer = io.BytesIO()
    torch.save(scope["Score"](), buffer)
    people, model = factories.people(), factories.make_model()
    request: dict[str, Any] = {
        "model": model,
        "code_upload_id": factories.make_upload(NET, "net.py").pk,
        "inputs": [{"name": "features", "dtype": "FP32", "dims": ["batch", 6]}],
    }

    with pytest.raises(Invalid) as refused:
        exported(**request, upload_id=factories.make_upload(buffer.getvalue(), "model.pt").pk)
    settings.CONFIG = replace(settings.CONFIG, allow_pickled_modules=True)
    upload = factories.make_upload(buffer.getvalue(), "model.pt")
    with pytest.raises(Invalid) as sourceless:
        exported(**{**request, "code_upload_id": None}, upload_id=upload.pk)
    version = exported(**request, upload_id=upload.pk)

    assert refused.value.code == "torch_pickled_module"
    assert sourceless.value.code == "module_source_missing"
    assert version.state == VersionState.VALIDATING, version.rejection
    assert version.source_format == "torch_pickled_module"
    assert "pickled Python object" in version.facts["warnings"][0]
    shown = Visitor(people.dana).get(f"/models/{model.name}/versions/{version.number}/")
    assert "opening it runs its code" in shown
