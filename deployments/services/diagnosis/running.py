"""The five steps, run by the node's own worker."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from console.adapters.triton import TritonClient
from console.errors import CovenantError, Invalid, Unavailable
from console.services import audit
from console.services.job_runs import JobRun
from deployments.adapters import (
    node_facts,
    node_lock,
    trial_models,
    triton_facts,
    triton_log,
)
from deployments.models import Diagnosis, DiagnosisState, Node, Placement, PlacementState
from deployments.rules.diagnosis import (
    compatibility,
    config_check,
    file_check,
    findings,
    onnx_check,
    server_log,
)
from deployments.rules.diagnosis.findings import Finding, Step
from deployments.rules.diagnosis.onnx_check import DataFile, GraphSeen
from deployments.services.diagnosis.asking import tell
from deployments.services.diagnosis.subjects import Subject, config_differs, opened, seen
from deployments.services.fleet.placements import LOCK_WAIT_S, triton_of
from models_registry.adapters import sandbox, triton_config
from models_registry.exporting import protocol
from models_registry.exporting.protocol import TensorSpec
from models_registry.services.sandbox_limits import limits_for
from models_registry.services.sandboxed import work_folder

LOG_LABEL = "triton_log"
"""The node's label that says where its worker finds Triton's log."""

INSPECT_SECONDS = 120.0
BEFORE = timedelta(minutes=1)


def run_diagnose(run: JobRun) -> dict[str, Any]:
    """Look at the version of `job.arguments["diagnosis"]` and write what was found.

    Safe to run again. Nothing that serves is touched; files are read, and with `try_load` the
    version is loaded once under a name of its own.
    """
    diagnosis = _full(run)
    if diagnosis.state not in (DiagnosisState.RUNNING, DiagnosisState.FAILED):
        return _result(diagnosis)
    with opened(diagnosis) as subject, triton_of(diagnosis.node) as triton:
        look = _Look(run, diagnosis, subject, triton)
        steps = look.all_steps()
        facts = look.facts
    with run.transaction():
        diagnosis = _full(run)
        _settle(diagnosis, steps, facts)
        audit.record(
            actor=run.actor,
            action="diagnosis.end",
            subject=str(diagnosis.version),
            subject_url=f"/diagnoses/{diagnosis.pk}/",
            after={"node": diagnosis.node.name, "state": diagnosis.state, "cause": diagnosis.cause},
        )
        tell(diagnosis)
    return _result(diagnosis)


def log_path(node: Node) -> Path | None:
    """Triton's log as the node's worker sees it: its label, or that of the embedded Triton."""
    if named := node.labels.get(LOG_LABEL):
        return Path(named)
    return settings.CONFIG.home / "log" / "triton.log" if is_embedded(node) else None


def is_embedded(node: Node) -> bool:
    """Whether the node is the Triton that this installation starts itself."""
    config = settings.CONFIG
    return bool(config.embedded_triton) and node.repository == str(config.triton_repository)


class _Look:
    """One run of the five steps over one subject."""

    def __init__(
        self, run: JobRun, diagnosis: Diagnosis, subject: Subject, triton: TritonClient
    ) -> None:
        self.run = run
        self.diagnosis = diagnosis
        self.node = diagnosis.node
        self.subject = subject
        self.triton = triton
        self.graph: GraphSeen | None = None
        self.server = ""
        self.unreachable: CovenantError | None = None
        self.serves = False
        self.facts: dict[str, Any] = {
            "triton_model": subject.triton_model,
            "on_node": subject.on_node,
        }

    def all_steps(self) -> list[Step]:
        """The five, told in their order; what others need is looked at first."""
        self._ask_triton()
        self.run.progress(0.1, "Checking the ONNX file")
        integrity = self._onnx()
        self.run.progress(0.5, "Checking the configuration")
        configuration = self._config()
        self.run.progress(0.6, "Comparing with the node’s release")
        fitting = self._compatibility()
        self.run.progress(0.65, "Checking access to the files")
        access = self._files()
        self.run.progress(0.7, "Reading Triton’s log")
        told = self._log()
        steps = [
            findings.step(findings.LOG, told),
            findings.step(findings.CONFIG, configuration),
            findings.step(findings.ONNX, integrity),
            findings.step(findings.COMPATIBILITY, fitting),
            findings.step(findings.FILES, access),
        ]
        return findings.with_serving(steps) if self.serves else steps

    def _ask_triton(self) -> None:
        try:
            self.server = self.triton.metadata().version
        except CovenantError as error:
            self.unreachable = error
        self.facts["server"] = self.server

    def _onnx(self) -> list[Finding]:
        subject = self.subject
        found = [*subject.faults]
        if subject.files or not subject.faults:
            present = seen(subject, self.run.check)
            found += onnx_check.files(subject.signed, present, on_node=subject.on_node)
        model = subject.files.get(protocol.MODEL)
        if model is None or not model.is_file():
            return found
        try:
            self.graph = self._inspected(subject)
        except Unavailable as error:
            found.append(Finding("not_inspected", "unknown", {"said": error.message}))
            return found
        self.facts |= {
            "runtime": self.graph.runtime,
            "opsets": dict(self.graph.opsets or {}),
            "ir_version": self.graph.ir_version,
        }
        return [*found, *onnx_check.graph(self.graph)]

    def _inspected(self, subject: Subject) -> GraphSeen:
        """The graph as the sandbox read it: a file on a node may be anybody's by now."""
        own = (protocol.MODEL, protocol.MODEL_DATA)
        files = {name: subject.files[name] for name in own if name in subject.files}
        beside = {name: path.stat().st_size for name, path in subject.files.items()}
        with work_folder(self.run) as folder:
            limits = limits_for(files, base=sandbox.Limits(wall_seconds=INSPECT_SECONDS))
            result = sandbox.run(
                "inspect",
                {"beside": beside},
                workdir=folder,
                files=files,
                limits=limits,
                cancelled=lambda: self.run.should_stop,
            )
        self.run.check()
        if result.ending != "ok":
            reason = result.refusal.message if result.refusal else result.ending
            raise Unavailable(f"The ONNX file could not be looked into: {reason}.")
        return _graph_seen(result.answer)

    def _config(self) -> list[Finding]:
        subject = self.subject
        if subject.config is None:
            return [Finding("config_missing", "bad", {"path": str(subject.folder)})]
        differs = config_differs(subject)
        found = [differs] if differs is not None else []
        try:
            message = triton_config.parse(subject.config)
        except Invalid as error:
            said = str(error.__cause__ or error.message)
            return [*found, config_check.unreadable(said, subject.config)]
        graph = self.graph
        comparable = graph is not None and not graph.damaged and bool(graph.outputs)
        return found + config_check.check(
            triton_facts.facts_of(message, size_of=subject.warmup_size),
            folder=subject.triton_model,
            number=subject.number,
            gpus=self.node.gpus,
            graph=config_check.GraphFacts(graph.inputs, graph.outputs, frozenset(graph.optional))
            if graph is not None and comparable
            else None,
        )

    def _compatibility(self) -> list[Finding]:
        node, error = self.node, self.unreachable
        facts = compatibility.NodeFacts(
            server=self.server,
            embedded=is_embedded(node),
            gpus=tuple(node.gpus),
            driver=node_facts.driver_version() if node.gpus else "",
            unreachable=error.message if error is not None else "",
            unreachable_code="triton_key_refused"
            if error is not None and error.code == "triton_key_refused"
            else "triton_unreachable",
        )
        return compatibility.check(facts, self.graph, target=self.diagnosis.version.target)

    def _files(self) -> list[Finding]:
        subject = self.subject
        places = [subject.folder, subject.folder / "config.pbtxt", subject.folder / "warmup"]
        places += [subject.folder / str(subject.number)]
        if subject.on_node:
            places += [*subject.files.values()]
            places += [one for one in subject.beside.values() if isinstance(one, Path)]
        port = self.node.grpc_address.rpartition(":")[2]
        return file_check.check(
            node_facts.paths_to(subject.root, places),
            node_facts.reader_of(subject.root, port),
            node_facts.disk_of(subject.root),
            needed=subject.size,
            on_node=subject.on_node,
        )

    def _log(self) -> list[Finding]:
        failed = self.diagnosis.failed_job
        words = failed.error_message if failed is not None else ""
        since = failed.started_at - BEFORE if failed is not None and failed.started_at else None
        found = self._said(self.subject.triton_model, words, since)
        placed = self._placement_state()
        tried: list[Finding] = []
        if self.unreachable is None:
            self.serves = placed == PlacementState.READY and self._is_loaded()
            if self.diagnosis.try_load:
                self.run.progress(0.75, "Trying to load it")
                tried = self._tried()
        return findings.weighed(
            tried,
            found,
            serves=self.serves,
            failed=failed is not None or placed == PlacementState.FAILED,
        )

    def _placement_state(self) -> str:
        """How the version stands on the node by the deployment that is looked at, "" without."""
        here = Placement.objects.filter(
            deployment=self.diagnosis.deployment_id, node=self.diagnosis.node_id
        )
        return here.values_list("state", flat=True).first() or ""

    def _is_loaded(self) -> bool:
        """Whether Triton says that it has the version loaded under its own name."""
        try:
            entries = self.triton.index()
        except CovenantError:
            return False
        wanted = (self.subject.triton_model, str(self.subject.number), "READY")
        return any((one.name, one.version, one.state) == wanted for one in entries)

    def _said(self, triton_model: str, words: str, since: datetime | None) -> list[Finding]:
        """What was said of a model, in the log and by Triton's own list of models."""
        path = log_path(self.node)
        text = triton_log.tail(path) if path is not None else None
        excerpt = server_log.Excerpt((), "", None)
        found = []
        if text is None:
            where = str(path) if path is not None else ""
            found.append(Finding("log_unreadable", "unknown", {"path": where}))
        else:
            lines = server_log.read(text, now=datetime.now().astimezone())
            excerpt = server_log.about(lines, triton_model, self.subject.number, since=since)
        said = server_log.explained(words or self._reason(triton_model), excerpt)
        return [said, *found] if said is not None else found

    def _reason(self, triton_model: str) -> str:
        if self.unreachable is not None:
            return ""
        try:
            entries = self.triton.index()
        except CovenantError:
            return ""
        wanted = (triton_model, str(self.subject.number))
        return next((e.reason for e in entries if (e.name, e.version) == wanted), "")

    def _tried(self) -> list[Finding]:
        """Load the very same files under the trial's name."""
        subject = self.subject
        if subject.config is None or not subject.files:
            return [Finding("trial_impossible", "unknown", {"said": ""})]
        beside = {f"{subject.number}/{own}": path for own, path in subject.files.items()}
        name = f"{trial_models.PREFIX}{self.diagnosis.pk.hex[:12]}"
        try:
            with (
                node_lock.exclusive(subject.root, wait_s=LOCK_WAIT_S, check=self.run.check),
                trial_models.placed(
                    subject.root,
                    name,
                    config=subject.config,
                    beside={**subject.beside, **beside},
                    number=subject.number,
                ),
            ):
                words, config = trial_models.outcome(self.triton, name, size_bytes=subject.size)
        except CovenantError as error:
            return [Finding("trial_impossible", "unknown", {"said": error.message})]
        if words:
            told = self._said(name, words, None)
            return [Finding("trial_failed", "bad", {}, server_log.plain(words)), *told]
        found = [Finding("trial_loaded", "warn")]
        if config is not None:
            written = triton_facts.fields_of(triton_config.parse(subject.config))
            loaded = triton_facts.fields_of(config)
            written.pop("name", None), loaded.pop("name", None)
            completed = config_check.completed(written, loaded)
            found += [completed] if completed is not None else []
        return found


def _full(run: JobRun) -> Diagnosis:
    return Diagnosis.objects.select_related(
        "node",
        "failed_job",
        "version__model",
        "version__onnx",
        "version__onnx_data",
        "version__config",
        "version__sample",
        "deployment__generation",
        "deployment__release",
    ).get(pk=run.job.arguments["diagnosis"])


def _settle(diagnosis: Diagnosis, steps: list[Step], facts: dict[str, Any]) -> None:
    diagnosis.steps = [step.to_json() for step in steps]
    diagnosis.facts = facts
    diagnosis.cause = findings.cause(steps)
    worst = findings.worst(steps)
    diagnosis.state = {
        "bad": DiagnosisState.FOUND,
        "warn": DiagnosisState.SUSPECTED,
    }.get(worst, DiagnosisState.CLEAN)
    diagnosis.ended_at = timezone.now()
    diagnosis.save(update_fields=["steps", "facts", "cause", "state", "ended_at"])


def _result(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "diagnosis": str(diagnosis.pk),
        "state": diagnosis.state,
        "cause": diagnosis.cause,
    }


def _graph_seen(answer: dict[str, Any]) -> GraphSeen:
    return GraphSeen(
        damaged=str(answer["damaged"]),
        checker=str(answer["checker"]),
        loading=str(answer["loading"]),
        runtime=str(answer["runtime"]),
        opsets={str(domain): int(version) for domain, version in answer["opsets"].items()},
        ir_version=int(answer["ir_version"]),
        nodes=int(answer["nodes"]),
        inputs=tuple(TensorSpec.from_json(one) for one in answer["inputs"]),
        outputs=tuple(TensorSpec.from_json(one) for one in answer["outputs"]),
        optional=tuple(str(name) for name in answer["optional"]),
        foreign=tuple((str(domain), str(name)) for domain, name in answer["foreign"]),
        data=tuple(DataFile(**one) for one in answer["data"]),
    )
