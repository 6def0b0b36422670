"""Versions as lists and pages show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Prefetch, QuerySet

from console.errors import Invalid, NotFound
from console.models import User
from models_registry.exporting import protocol
from models_registry.models import Artifact, ModelVersion, Release, VersionFile

FILES: tuple[tuple[str, str], ...] = (
    ("source", "source"),
    ("code", "code"),
    ("onnx", "onnx"),
    ("onnx_data", "onnx_data"),
    ("config", "config"),
    ("report", "report_artifact"),
    ("sample", "sample"),
    ("replay", "replay"),
)
"""(public name, field) of each file that a version may have."""

_RELATED = (
    "model", "created_by", "export_job", "validate_job", "derived_from",
    *(field for _, field in FILES)
)  # fmt: skip
# Of the original of a variant only its number is asked for.
_HEAVY = ("derived_from__report", "derived_from__facts", "derived_from__config_origins")
_BESIDE = "data:"
"""Before the names of files that the source refers to, as public names."""

_EXTENSIONS = {
    "onnx": "model.onnx",
    "config": "config.pbtxt",
    "report": "report.json",
    "sample": "sample.json",
    "replay": "replay.json",
    "code": "code",
}


_FURTHER = Prefetch("files", VersionFile.objects.select_related("artifact"))


@dataclass(frozen=True, slots=True)
class FileRow:
    """One of a version's files; `filename` is what a download is called."""

    name: str
    artifact: Artifact
    filename: str


@dataclass(frozen=True, slots=True)
class VersionPage:
    """What a version's page shows. `checks` are the report's lines by group, in their order."""

    version: ModelVersion
    files: tuple[FileRow, ...]
    checks: tuple[tuple[str, tuple[dict[str, Any], ...]], ...]
    settings: tuple[tuple[str, dict[str, Any]], ...]
    releases: tuple[Release, ...]
    previous: int | None
    following: int | None


def version_list(
    model_name: str, *, user: User, state: str = "", q: str = ""
) -> QuerySet[ModelVersion]:
    """A model's versions, newest first, in 2 queries; reports and facts are left out."""
    versions = (
        ModelVersion.objects.visible_to(user)
        .filter(model__name=model_name)
        .select_related(*_RELATED)
        .prefetch_related(_FURTHER)
        .defer("report", "facts", "config_origins", *_HEAVY)
    )
    if state:
        versions = versions.filter(state=state)
    if q:
        versions = versions.filter(notes__icontains=q)
    return versions


def find_version(model_name: str, number: int, *, user: User) -> ModelVersion:
    """One version with its files and jobs, in 2 queries.

    Raises NotFound, in the same words for a model that the user may not see.
    """
    version = (
        ModelVersion.objects.visible_to(user)
        .filter(model__name=model_name, number=number)
        .select_related(*_RELATED)
        .prefetch_related(_FURTHER)
        .defer(*_HEAVY)
        .first()
    )
    if version is None:
        raise NotFound(
            f"{model_name[:63]} has no version {number}.",
            hint="Versions are numbered from 1; see the model's page.",
        )
    return version


def version_page(model_name: str, number: int, *, user: User) -> VersionPage:
    """A version's page, in 3 queries. Raises NotFound."""
    version = find_version(model_name, number, user=user)
    releases = (
        Release.objects.filter(version=version)
        .select_related("environment", "requested_by", "version__model")
        .prefetch_related("approvals__person")
    )
    return VersionPage(
        version=version,
        files=files_of(version),
        checks=_by_group((version.report or {}).get("checks", [])),
        settings=tuple(version.config_origins.items()),
        releases=tuple(releases),
        previous=number - 1 if number > 1 else None,
        following=number + 1 if number < version.model.last_version_number else None,
    )


def report_of(version: ModelVersion) -> dict[str, Any]:
    """The validation report. Raises NotFound (`no_report`)."""
    if version.report is None:
        raise NotFound(
            f"{version} has no validation report yet.",
            code="no_report",
            hint="Follow its job; the report is there when the validation has ended.",
        )
    report: dict[str, Any] = version.report
    return report


def other_version(version: ModelVersion, against: str = "", *, user: User) -> ModelVersion:
    """The version to compare with: number `against`, else the newest before it with a report.

    Raises NotFound, Invalid for what is no number or the version itself.
    """
    name, number = version.model.name, version.number
    if against:
        if not (against.isdecimal() and len(against) < 9) or int(against) == number:
            raise Invalid(
                f"{against[:20]} is no other version of {name}.",
                code="invalid_version",
                hint="Give the number of another version, such as against=1.",
            )
        return find_version(name, int(against), user=user)
    before = (
        ModelVersion.objects.filter(model=version.model, number__lt=number, report__isnull=False)
        .order_by("-number")
        .values_list("number", flat=True)
        .first()
    )
    if before is None:
        raise NotFound(
            f"No version of {name} before v{number} has a validation report.",
            code="no_report",
            hint="Name another version to compare with.",
        )
    return find_version(name, before, user=user)


def files_of(version: ModelVersion) -> tuple[FileRow, ...]:
    """The files that the version has; those beside its source follow it under their names."""
    stem = f"{version.model.name}-v{version.number}"
    rows = [
        FileRow(name, artifact, _download_name(stem, name, version))
        for name, field in FILES
        if (artifact := getattr(version, field)) is not None
    ]
    rows[1:1] = [
        FileRow(f"{_BESIDE}{file.name}", file.artifact, file.name) for file in version.files.all()
    ]
    return tuple(rows)


def find_file(version: ModelVersion, name: str) -> FileRow:
    """One file by its public name. Raises NotFound with what there is."""
    files = {row.name: row for row in files_of(version)}
    if name not in files:
        raise NotFound(
            f"{version} has no file “{name[:40]}”.", hint="It has " + ", ".join(files) + "."
        )
    return files[name]


def _download_name(stem: str, name: str, version: ModelVersion) -> str:
    if name == "source":
        return version.filename
    if name == "onnx_data" or (name == "onnx" and version.onnx_data_id):
        # The graph refers to its weights by this name.
        return protocol.MODEL if name == "onnx" else protocol.MODEL_DATA
    return f"{stem}-{_EXTENSIONS[name]}"


def _by_group(
    checks: list[dict[str, Any]],
) -> tuple[tuple[str, tuple[dict[str, Any], ...]], ...]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for check in checks:
        groups.setdefault(check["group"], []).append(check)
    return tuple((group, tuple(lines)) for group, lines in groups.items())
