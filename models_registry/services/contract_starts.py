"""What a draft of a contract starts from: a template, a revision, a version's report, nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from console.errors import NotFound
from models_registry.models import ModelVersion, RegisteredModel, ServiceContract, VersionState
from models_registry.rules import contract_proposal, contract_templates
from models_registry.rules.contract_order import in_reading_order
from models_registry.rules.contract_validity import day_of
from models_registry.services.contracts import measured_latency, propose_document

_BLANK = """\
apiVersion: covenant/v1
kind: ServiceContract
model: {model}
interface:
  inputs: []
  outputs: []
objectives: []
errors: []
fallback: {{response: {{}}, rules: []}}
logging: {{required: [x_request_id, model_version, status, duration_ms], retention_days: 30}}
"""


@dataclass(frozen=True, slots=True)
class Start:
    """What a draft starts from: a template, an earlier revision, a version's report, or nothing.

    `version` fills a template's interface and figures too; without one the newest validated does.
    """

    template: str = ""
    revision: int | None = None
    version: int | None = None


def starting_text(model: RegisteredModel, start: Start, *, now: datetime | None = None) -> str:
    """The YAML that a draft starts with.

    Raises NotFound for a template, revision or version that is not there, and Conflict
    (`version_not_exported`) for a version that is named and whose graph is not known.
    """
    if start.revision is not None:
        return _text_of_revision(model, start.revision)
    version = _version(model, start.version)
    if start.template:
        return _text_of_template(model, start.template, version, now or timezone.now())
    if start.version is not None and version is not None:
        return contract_proposal.to_yaml(propose_document(version, now=now))
    return _BLANK.format(model=model.name)


def _text_of_revision(model: RegisteredModel, revision: int) -> str:
    contract = ServiceContract.objects.filter(model=model, revision=revision).first()
    if contract is None:
        raise NotFound(
            f"{model.name} has no contract {revision}.",
            hint="Revisions are numbered from 1; see the model's page.",
        )
    # A revision that names its own number would be refused as the next one.
    body = {name: value for name, value in contract.document.items() if name != "revision"}
    return contract_proposal.to_yaml(in_reading_order(body))


def _text_of_template(
    model: RegisteredModel, key: str, version: ModelVersion | None, now: datetime
) -> str:
    exported = version is not None and bool(version.facts)
    return contract_templates.fill(
        key,
        model=model.name,
        today=day_of(now),
        proposal=propose_document(version, now=now) if version and exported else None,
        promise=contract_proposal.latency_promise(measured_latency(version))
        if version and measured_latency(version)
        else None,
    )


def _version(model: RegisteredModel, number: int | None) -> ModelVersion | None:
    versions = ModelVersion.objects.filter(model=model).select_related("model")
    if number is None:
        return versions.filter(state=VersionState.VALIDATED).order_by("-number").first()
    version = versions.filter(number=number).first()
    if version is None:
        raise NotFound(f"{model.name} has no version {number}.")
    return version
