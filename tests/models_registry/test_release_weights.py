"""Weights beside a graph in what is signed: a sixth digest or none, and no old document changes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from console.errors import Invalid
from console.rules.canonical import canonical_bytes, digest
from models_registry.rules import release_payload
from models_registry.rules.bundles import verify_bundle
from tests.models_registry.test_bundles import DOCUMENT, FOUND, NOW, RELEASE, codes, make_release

LARGE = replace(RELEASE, digests=replace(RELEASE.digests, onnx_data=digest(b"onnx_data")))


def test_the_weights_beside_a_graph_are_signed_and_compared() -> None:
    assert release_payload.parse(release_payload.canonical(LARGE)) == LARGE
    weights = {"onnx_data": digest(b"onnx_data")}
    whole = verify_bundle(make_release(LARGE), files=FOUND | weights)
    assert (whole.ok, {f.code for f in whole.findings} & {"weights_not_compared"}) == (True, set())
    alone = verify_bundle(make_release(LARGE), files=FOUND)
    assert "weights_not_compared" in {f.code for f in alone.findings if f.level == "warning"}
    changed = {**FOUND, "onnx_data": digest(b"other weights")}
    assert codes(make_release(LARGE), files=changed) == {"digest_mismatch"}
    assert codes(make_release(), files=weights) == {"file_not_signed"}


def test_a_release_signed_before_weights_lay_beside_graphs_still_holds() -> None:
    """The bytes of such a release, as they were signed then: no field has come to them."""
    names = '"config":"{}","contract":"{}","onnx":"{}","report":"{}","source":"{}"'
    told = names.format(
        *(digest(b"config"), DOCUMENT.digest),
        *(digest(name) for name in (b"onnx", b"report", b"source")),
    )
    before = (
        '{"apiVersion":"covenant/v1","digests":{' + told + '},"environment":"production",'
        '"kind":"Release","model":"fraud_detector","release":"'
        + RELEASE.release
        + '","requested_at":"'
        + release_payload.time_text(NOW)
        + '","requested_by":"dana","version":4}'
    )
    assert release_payload.canonical(RELEASE) == before.encode()
    assert release_payload.parse(before.encode()) == RELEASE


@pytest.mark.parametrize("value", [None, "", "x"])
def test_weights_are_signed_with_a_digest_or_not_named_at_all(value: str | None) -> None:
    document = json.loads(release_payload.canonical(RELEASE))
    document["digests"]["onnx_data"] = value
    with pytest.raises(Invalid) as refusal:
        release_payload.parse(canonical_bytes(document))
    assert refusal.value.errors[0].pointer == "/digests/onnx_data"
