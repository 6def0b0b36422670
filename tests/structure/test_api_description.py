"""The OpenAPI document: complete, and changed only on purpose."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema

SNAPSHOT = Path(__file__).parent / "openapi.json"


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        document: dict[str, Any] = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    return json.loads(json.dumps(document))  # type: ignore[no-any-return]


def test_it_is_a_valid_document(described: dict[str, Any]) -> None:
    validate_schema(described)  # type: ignore[no-untyped-call]


def test_every_operation_says_what_it_does_and_how_it_refuses(described: dict[str, Any]) -> None:
    wrong = [
        f"{method} {path}"
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
        if method in {"get", "post", "put", "patch", "delete", "head"}
        and ("default" not in operation["responses"] or not operation.get("summary"))
    ]
    assert wrong == []


def test_it_is_as_it_was(described: dict[str, Any]) -> None:
    text = json.dumps(described, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        SNAPSHOT.write_text(text)
    assert SNAPSHOT.read_text() == text, (
        "The API's description changed. When that is meant, run this test with UPDATE_SNAPSHOTS=1."
    )


@pytest.mark.django_db
def test_it_is_served_to_everybody(client: Client) -> None:
    answer = client.get("/api/v1/schema/?format=json")
    assert answer.status_code == 200
    assert answer.json()["info"]["title"] == "Covenant"
