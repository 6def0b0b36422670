"""What export and validation share: a sandboxed program run for a job, and the job's ending."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections, transaction
from django.utils import timezone

from console.errors import Conflict, FieldError, Invalid, Unavailable
from console.models import Job, JobState
from console.services.job_runs import JobCancelled, JobRun, LeaseLost
from models_registry.adapters import bubblewrap, sandbox
from models_registry.adapters import sandbox_leavings as leavings
from models_registry.adapters.bubblewrap import GIB
from models_registry.adapters.sandbox_leavings import Event
from models_registry.exporting import protocol
from models_registry.models import Artifact, ModelVersion, VersionState
from models_registry.rules.versions import check_move, may_move, state_after_job
from models_registry.services import artifacts
from models_registry.services.sandbox_limits import limits_for, model_bytes
from models_registry.services.versions import publish

SPARE_BYTES = 64 * 1024**2
SCRATCH_SECONDS = 24 * 3600
log = logging.getLogger(__name__)


@contextmanager
def work_folder(run: JobRun) -> Iterator[Path]:
    """A folder of this attempt alone; what earlier attempts left behind goes first."""
    root: Path = settings.CONFIG.home / "work"
    root.mkdir(parents=True, exist_ok=True)
    for left in root.glob(f"{run.job.pk}-*"):
        leavings.remove(left)
    folder = root / f"{run.job.pk}-{run.attempt}"
    try:
        yield folder
    finally:
        leavings.remove(folder)


def clean_work_folders() -> int:
    """Remove what killed workers and processes left behind; gives how many folders went."""
    root: Path = settings.CONFIG.home / "work"
    gone = 0
    for folder in root.glob("????????-????-????-????-????????????-*"):
        job_id, _, _ = folder.name.rpartition("-")
        alive = (JobState.QUEUED, JobState.RUNNING)
        if not Job.objects.filter(pk=job_id, state__in=alive).exists():
            leavings.remove(folder)
            gone += 1
    oldest = timezone.now().timestamp() - SCRATCH_SECONDS
    for name in ("artifact", "propose"):
        for folder in root.glob(f"{name}-*"):
            if folder.stat().st_mtime < oldest:
                leavings.remove(folder)
                gone += 1
    return gone


def run_program(
    run: JobRun,
    program: sandbox.Program,
    request: protocol.Json,
    files: Mapping[str, Artifact | None],
    folder: Path,
) -> sandbox.SandboxResult:
    """Run a sandboxed program for the job, its progress and log lines being the job's.

    Gives the result of a program that ended well. Raises Invalid with the program's refusal,
    DiskFull, JobCancelled and LeaseLost as `run.check` does.
    """
    with ExitStack() as opened:
        paths = {
            name: opened.enter_context(artifacts.local_path(artifact))
            for name, artifact in files.items()
            if artifact is not None
        }
        limits = limits_for(paths)
        refuse_full_disk(folder.parent, paths)
        run.log(
            f"The sandbox may use {limits.memory_bytes / GIB:.1f} GiB of memory and "
            f"{limits.wall_seconds:.0f} seconds."
        )
        if weakness := bubblewrap.weakness():
            run.log(f"The sandbox is weaker than it could be: {weakness}.", level="warning")
        result = sandbox.run(
            program,
            request,
            workdir=folder,
            files=paths | operator_libraries(),
            limits=limits,
            on_event=_reporter(run),
            cancelled=lambda: run.should_stop,
        )
    run.check()
    usage = result.usage
    run.log(
        f"The sandbox used {usage.wall_seconds:.1f} s, {usage.cpu_seconds:.1f} s of CPU and "
        f"{usage.peak_bytes / 2**20:.0f} MiB."
    )
    if result.refusal is not None:
        if result.stderr_tail:
            run.log(result.stderr_tail, level="warning")
        refusal = result.refusal
        pointers = (FieldError(refusal.pointer, refusal.message),) if refusal.pointer else ()
        raise Invalid(refusal.message, code=refusal.code, hint=refusal.hint, errors=pointers)
    if result.ending != "ok":
        raise Unavailable(
            f"The sandbox ended without an answer ({result.ending}).", code="sandbox_unavailable"
        )
    return result


def refuse_full_disk(folder: Path, paths: Mapping[str, Path]) -> None:
    """Raise DiskFull before the work begins when there is no room for it.

    A model lies there up to three times: as the sandbox reads it, unpacked, and as it is written.
    """
    needed = 3 * model_bytes(paths) + SPARE_BYTES
    if shutil.disk_usage(folder).free < needed:
        raise artifacts.disk_full(folder, needed)


def source_files(version: ModelVersion) -> dict[str, Artifact | None]:
    """The files of a version's source by their names in the protocol, with what lies beside it.

    A variant is measured against the source that its original was made from.
    """
    origin = version
    while origin.derived_from is not None:
        origin = origin.derived_from
    return {
        protocol.SOURCE: version.source,
        protocol.CODE: version.code,
        protocol.SAMPLE: version.sample,
        **{
            f"{protocol.BESIDE}{file.name}": file.artifact
            for file in origin.files.select_related("artifact")
        },
    }


def operator_libraries() -> dict[str, Path]:
    """The site's custom operator libraries, by the names under which a sandbox shows them."""
    return {
        f"{protocol.OPERATORS}/{path.name}": path for path in settings.CONFIG.custom_op_libraries
    }


def lock_version(run: JobRun) -> ModelVersion:
    """The job's version with its row locked, inside `run.transaction()`."""
    return (
        ModelVersion.objects.select_for_update(of=("self",))
        .select_related("model", "source")
        .get(pk=run.job.arguments["version"])
    )


def begin(run: JobRun, state: VersionState) -> ModelVersion:
    """Put the job's version into the state of being worked on; a second attempt finds it there.

    A version that is already beyond it is given back as it is. Raises Conflict for a rejected or
    archived one.
    """
    with run.transaction():
        version = lock_version(run)
        if version.state in (VersionState.REJECTED, VersionState.ARCHIVED):
            raise Conflict(
                f"{version} is {version.get_state_display()}. {version.rejection}".strip(),
                code=f"version_{version.state}",
                hint="Create a new version from a mended file.",
            )
        if version.state != state and may_move(version.state, state):
            check_move(version.state, state, str(version))
            version.state, version.rejection = state, ""
            version.save(update_fields=["state", "rejection"])
            publish(version)
    return version


def ended(job: Job, *, during: VersionState) -> None:
    """What a job's ending without success means for its version, in the ending's transaction."""
    with transaction.atomic():
        version = (
            ModelVersion.objects.select_for_update(of=("self",))
            .select_related("model")
            .filter(pk=job.arguments["version"], state=during)
            .first()
        )
        if version is None:
            return
        version.state = VersionState(state_after_job(job.state, job.error_code))
        if version.state == VersionState.REJECTED:
            version.rejection = f"{job.error_message} {job.error_hint}".strip()
        version.save(update_fields=["state", "rejection"])
        publish(version)


def _reporter(run: JobRun) -> Callable[[Event], None]:
    def report(event: Event) -> None:
        try:
            if event.kind == "progress":
                # The ends belong to reading the files and to storing the results.
                run.progress(0.02 + 0.93 * event.progress, event.step or run.job.step)
            elif event.line:
                run.log(event.line, level=event.level)
        except (JobCancelled, LeaseLost):
            # `cancelled` is asked next and stops the program in an orderly way.
            return
        except DatabaseError as error:
            # A database that is away for a moment costs a progress report, not the work.
            log.warning("job %s: progress was not stored: %s", run.job.pk, error)
            close_old_connections()

    return report


def finite(value: Any) -> Any:
    """The JSON value with NaN and infinities as text, which Postgres and RFC 8259 do not take."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, float) and value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")) and isinstance(value, float):
        return "Infinity" if value > 0 else "-Infinity"
    return value
