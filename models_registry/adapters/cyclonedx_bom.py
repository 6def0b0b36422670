"""Bills of materials in CycloneDX 1.6 (ECMA-424), with a model card (ML-BOM).

The library writes everything but the model card, which it has no class for yet; the whole is
checked against the schema that the library carries.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from console.errors import Invalid


@dataclass(frozen=True, slots=True)
class BomFile:
    """A file that belongs to the model: `name` says what it is, `sha256` is in hex."""

    name: str
    filename: str
    sha256: str
    size: int
    media_type: str


@dataclass(frozen=True, slots=True)
class BomTensor:
    name: str
    text: str
    """Data type and shape, as in `FP32 [batch, 10]`."""


@dataclass(frozen=True, slots=True)
class BomMetric:
    kind: str
    value: str
    slice: str = ""


@dataclass(frozen=True, slots=True)
class ModelBom:
    """What is said of one version (or one release of it).

    `libraries` are names and versions of what took part in making and checking the model;
    `properties` further facts under names of our own.
    """

    serial: UUID
    at: datetime
    model: str
    version: int
    description: str
    team: str
    architecture: str
    onnx: BomFile
    files: Sequence[BomFile]
    inputs: Sequence[BomTensor]
    outputs: Sequence[BomTensor]
    metrics: Sequence[BomMetric]
    limitations: Sequence[str]
    users: Sequence[str]
    libraries: Sequence[tuple[str, str]]
    runtime: tuple[str, str]
    properties: dict[str, str] = field(default_factory=dict)


def write(facts: ModelBom) -> bytes:
    """The bill as JSON text. Raises Invalid (`bom_invalid`) should it not fit its schema."""
    model = _model(facts)
    bom = Bom(serial_number=facts.serial, version=1)
    bom.metadata.component = model
    bom.metadata.timestamp = facts.at
    bom.metadata.tools = ToolRepository(
        components=[Component(name="covenant", type=ComponentType.APPLICATION)]
    )
    parts = [*map(_file, facts.files), *(_library(*one) for one in facts.libraries)]
    parts.append(
        Component(
            bom_ref="runtime",
            name=facts.runtime[0],
            version=facts.runtime[1],
            type=ComponentType.PLATFORM,
        )
    )
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(model, parts)
    document: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    document["metadata"]["component"]["modelCard"] = _card(facts)
    text = json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    if (fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise Invalid(
            f"The bill of materials does not fit CycloneDX 1.6: {str(fault.data)[:300]}",
            code="bom_invalid",
            hint="This is a fault of Covenant: report it with the release's number.",
        )
    return text.encode()


def _model(facts: ModelBom) -> Component:
    return Component(
        bom_ref="model",
        name=facts.model,
        group=facts.team or None,
        version=str(facts.version),
        description=facts.description or None,
        type=ComponentType.MACHINE_LEARNING_MODEL,
        hashes=[_hash(facts.onnx)],
        properties=[
            Property(name=f"covenant:{name}", value=value)
            for name, value in sorted(facts.properties.items())
        ],
    )


def _file(one: BomFile) -> Component:
    return Component(
        bom_ref=f"file:{one.name}",
        name=one.filename,
        description=one.name,
        type=ComponentType.FILE,
        hashes=[_hash(one)],
        properties=[Property(name="covenant:size_bytes", value=str(one.size))],
    )


def _library(name: str, version: str) -> Component:
    # What follows a + or a blank is a build's own mark, not part of the published version.
    published = version.split("+")[0].split(" ")[0]
    return Component(
        bom_ref=f"library:{name}",
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        purl=PackageURL(type="pypi", name=name, version=published),
    )


def _hash(one: BomFile) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=one.sha256)


def _card(facts: ModelBom) -> dict[str, Any]:
    return {
        "modelParameters": {
            "modelArchitecture": facts.architecture,
            "inputs": [{"format": f"{one.name}: {one.text}"} for one in facts.inputs],
            "outputs": [{"format": f"{one.name}: {one.text}"} for one in facts.outputs],
        },
        "quantitativeAnalysis": {
            "performanceMetrics": [
                {
                    "type": one.kind,
                    "value": one.value,
                    **({"slice": one.slice} if one.slice else {}),
                }
                for one in facts.metrics
            ]
        },
        "considerations": {
            "users": list(facts.users),
            "technicalLimitations": list(facts.limitations),
        },
    }
