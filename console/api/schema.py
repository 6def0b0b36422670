"""What every operation of the OpenAPI document has in common."""

from __future__ import annotations

from typing import Any

from drf_spectacular.generators import SchemaGenerator

from console.api.problems import MEDIA_TYPE

PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457 problem document.",
    "required": ["type", "title", "status", "detail", "code", "hint", "errors"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened, to what."},
        "code": {"type": "string", "description": "Stable word that a caller may branch on."},
        "hint": {"type": "string", "description": "What to do next."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "detail"],
                "properties": {
                    "pointer": {"type": "string", "description": "RFC 6901 JSON pointer."},
                    "detail": {"type": "string"},
                },
            },
        },
    },
}


def answer_problems(
    result: dict[str, Any], generator: SchemaGenerator, request: Any, public: bool
) -> dict[str, Any]:
    """Postprocessing hook: every operation may answer with a problem document."""
    result.setdefault("components", {}).setdefault("schemas", {})["Problem"] = PROBLEM
    answer = {
        "description": "Refused or failed.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for path in result.get("paths", {}).values():
        for operation in path.values():
            if isinstance(operation, dict) and "responses" in operation:
                operation["responses"].setdefault("default", answer)
    return result
