"""Several files of one model in the browser: dropped together, or the missing one brought later."""

from __future__ import annotations

from pathlib import Path

import pytest

from models_registry.models import ModelVersion
from tests import factories
from tests.browser.conftest import SignIn
from tests.models_registry.test_exporting_weights import parted

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/models/fraud_detector/versions/new/"


def test_a_graph_and_its_weights_are_dropped_together(sign_in: SignIn, tmp_path: Path) -> None:
    factories.make_model()
    graph = parted(tmp_path / "up")
    tab = sign_in("dana", PAGE)
    assert tab.locator("#data-files").is_hidden()
    tab.set_input_files("#model-upload [data-upload-file]", [graph, graph.with_name("weights.bin")])
    tab.wait_for_selector("text=net.onnx has all the files", timeout=30_000)
    tab.wait_for_selector("#data-files [data-upload][data-state=done]")
    tab.click("text=Create the version")
    tab.wait_for_url("**/models/fraud_detector/versions/1/")
    version = ModelVersion.objects.get()
    assert [file.name for file in version.files.all()] == ["weights.bin"]
    assert version.filename == "net.onnx"


def test_a_graph_alone_asks_for_its_weights_by_name(sign_in: SignIn, tmp_path: Path) -> None:
    factories.make_model()
    graph = parted(tmp_path / "up")
    tab = sign_in("dana", PAGE, width=390)
    tab.set_input_files("#model-upload > div > [data-upload] [data-upload-file]", graph)
    tab.wait_for_selector("text=these are not here yet: weights.bin.", timeout=30_000)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.set_input_files("[data-upload-set-file]", graph.with_name("weights.bin"))
    tab.wait_for_selector("text=net.onnx has all the files")
    tab.wait_for_selector("#data-files [data-upload][data-state=done]")
    # Taken away again it is missing again; what the file says of its inputs stays as it was typed.
    tab.fill("[name=input_max] >> nth=0", "7")
    tab.click("#data-files [data-upload-set-remove]")
    tab.wait_for_selector("text=these are not here yet: weights.bin.")
    tab.set_input_files("[data-upload-set-file]", graph.with_name("weights.bin"))
    tab.wait_for_selector("#data-files [data-upload][data-state=done]")
    assert tab.input_value("[name=input_max] >> nth=0") == "7"
    tab.click("text=Create the version")
    tab.wait_for_url("**/models/fraud_detector/versions/1/")


def test_two_graphs_at_once_are_refused_in_words(sign_in: SignIn, tmp_path: Path) -> None:
    factories.make_model()
    graph = parted(tmp_path / "up")
    other = graph.with_name("other.onnx")
    other.write_bytes(graph.read_bytes())
    tab = sign_in("dana", PAGE)
    tab.set_input_files("#model-upload [data-upload-file]", [graph, other])
    tab.wait_for_selector("text=one .onnx file together with the files")
