"""What a gateway would be told, as the file that its own tools take."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML

from console.errors import Conflict
from deployments.adapters.gateway import Registration
from deployments.adapters.kong import entities as kong
from deployments.adapters.kubernetes import objects as kubernetes
from deployments.adapters.reaching import Refused
from deployments.rules.gateways.snapshots import Snapshot

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Export:
    """A file by its name, and its text."""

    filename: str
    text: str


def export(gateway: Registration, snapshot: Snapshot) -> Export:
    """The declarative configuration of a gateway: `kong.yaml` (decK), or manifests for kubectl.

    Raises Conflict for a product that has none, or for what cannot be said to the product.
    """
    try:
        match gateway.product:
            case "kong":
                site = kong.site_of(gateway.name, gateway.options)
                return Export("kong.yaml", _yaml([kong_document(kong.entities(snapshot, site))]))
            case "kubernetes":
                place = kubernetes.site_of(gateway.name, gateway.options)
                made = kubernetes.objects(snapshot, place)
                return Export("gateway-api.yaml", _yaml([*made.backends, *made.routes]))
    except Refused as refusal:
        raise Conflict(
            f"{gateway.name} cannot be told this: {refusal.reason}",
            code="not_by_gateway",
            hint="See what the gateway can do on its page.",
        ) from refusal
    raise Conflict(
        "An Envoy is told by its stream, so there is no file to export.",
        code="no_export",
        hint="Look at its /config_dump for what it has.",
    )


def kong_document(entities: Iterable[kong.Entity]) -> JSON:
    """Entities in Kong's declarative form: children under what they belong to."""
    by_kind: dict[str, list[kong.Entity]] = {kind: [] for kind in kong.KINDS}
    for entity in entities:
        by_kind[entity.kind].append(entity)

    def plugins(field: str, owner: str) -> list[JSON]:
        return [
            _plain(one, field)
            for one in by_kind["plugins"]
            if (one.body.get(field) or {}).get("id") == owner
        ]

    def routes(service: str | None) -> list[JSON]:
        return [
            {**_plain(one, "service"), "plugins": plugins("route", one.id)}
            for one in by_kind["routes"]
            if ((one.body["service"] or {}).get("id")) == service
        ]

    def targets(upstream: str) -> list[JSON]:
        return [_plain(one) for one in by_kind["targets"] if one.parent == upstream]

    document: JSON = _without_empty(
        {
            "_format_version": "3.0",
            "services": [
                {**_plain(one), "routes": routes(one.id), "plugins": plugins("service", one.id)}
                for one in by_kind["services"]
            ],
            "routes": routes(None),
            "upstreams": [
                {**_plain(one), "targets": targets(one.id)} for one in by_kind["upstreams"]
            ],
        }
    )
    return document


def _plain(entity: kong.Entity, without: str = "") -> JSON:
    return {
        "id": entity.id,
        **{k: v for k, v in entity.body.items() if k != without and v is not None},
    }


def _without_empty(document: Any) -> Any:
    if isinstance(document, Mapping):
        return {
            key: _without_empty(value) for key, value in document.items() if value not in ([], {})
        }
    if isinstance(document, list):
        return [_without_empty(one) for one in document]
    return document


def _yaml(documents: list[JSON]) -> str:
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.width = 100
    text = io.StringIO()
    writer.dump_all(documents, text)
    return text.getvalue()
