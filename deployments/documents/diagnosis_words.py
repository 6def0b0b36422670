"""What a diagnosis found, in the reader's own words: what it is, and how to mend it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext_lazy as _

from deployments.rules.diagnosis.findings import Finding, Step

NAMES: Final = {
    "log": _("Server log at the error"),
    "config": _("Configuration, strictly"),
    "onnx": _("ONNX integrity"),
    "compatibility": _("Release and driver"),
    "files": _("Access to the files"),
}
ASKS: Final = {
    "log": _("What did Triton itself say?"),
    "config": _("Does config.pbtxt hold, and does it fit the graph?"),
    "onnx": _("Are these the signed bytes, and a sound graph?"),
    "compatibility": _("Does this node’s release load such a graph?"),
    "files": _("May Triton read it, and is there room?"),
}

_AGAIN = _("Take the version off this node and deploy it again: its files are placed anew.")
_ANEW = _("Export the model again and release the new version.")

# Code → what was found, and what to do about it ("" where there is nothing to do).
WORDS: Final = {
    "backend_missing": (
        _("Triton has no backend “%(name)s” on this node."),
        _("Use a Triton image that brings it, or name the backend that the image has."),
    ),
    "batch_axis_fixed": (
        _(
            "“%(tensor)s” has the fixed size %(size)s on its batch axis, but the configuration "
            "batches."
        ),
        _("Export with a free batch axis, or set max_batch_size to 0."),
    ),
    "config_completed": (
        _("Triton filled in %(fields)s fields by itself."),
        "",
    ),
    "config_differs": (
        _(
            "The config.pbtxt on the node (%(found)s…) is not the one that was signed "
            "(%(signed)s…)."
        ),
        _AGAIN,
    ),
    "config_fits": (
        _("It parses strictly and fits the graph: %(inputs)s inputs, %(outputs)s outputs."),
        "",
    ),
    "config_missing": (_("There is no config.pbtxt in %(path)s."), _AGAIN),
    "config_name_differs": (
        _("config.pbtxt says the name “%(name)s”; its folder is called “%(folder)s”."),
        _("Both must be the same: take the version off and deploy it again."),
    ),
    "config_reads": (
        _("It parses strictly; there is no graph to compare it with."),
        "",
    ),
    "config_refused": (
        _("Triton refuses the configuration: %(reason)s"),
        _("Mend what it names in the version’s tuning, and release it anew."),
    ),
    "config_unknown_field": (
        _("Line %(line)s of config.pbtxt has a field that Triton does not know: “%(field)s”."),
        _("Remove the field. What is not in Triton’s ModelConfig is never just ignored."),
    ),
    "config_unreadable": (
        _("config.pbtxt cannot be parsed (line %(line)s)."),
        _("Mend the line, or deploy the version again to have the signed file placed."),
    ),
    "digest_differs": (
        _("%(name)s is not the file that was signed: %(found)s… instead of %(signed)s…."),
        _AGAIN,
    ),
    "digests_match": (
        _("Exactly the bytes that were signed (files: %(files)s; %(bytes)s in all)."),
        "",
    ),
    "dims_differ": (
        _("“%(tensor)s” is configured as %(configured)s; the graph has %(real)s."),
        _("Correct the dims in the interface of the version, and release it anew."),
    ),
    "disk_full": (
        _("The node’s disk has %(free)s free; placing the version takes %(needed)s and a reserve."),
        _("Free at least %(lacking)s: unload old versions, or enlarge the disk."),
    ),
    "disk_nearly_full": (
        _("The node’s disk is nearly full: %(free)s of %(total)s are free."),
        _("Unload versions that carry no traffic before the next deploy."),
    ),
    "driver_fits": (
        _("Driver %(driver)s carries CUDA %(cuda)s of release %(release)s."),
        "",
    ),
    "driver_older": (
        _("Driver %(driver)s is older than %(shipped)s, with which release %(release)s was made."),
        _("It runs by CUDA’s minor version compatibility; update the driver when you can."),
    ),
    "driver_too_old": (
        _("The GPU driver %(driver)s is too old: CUDA %(cuda)s of this Triton needs %(floor)s."),
        _("Update the node’s driver, or use an older Triton release there."),
    ),
    "driver_unknown": (
        _("The node has GPUs, but its worker sees no NVIDIA driver."),
        _("Run nvidia-smi on the node; inside a container, give it the GPUs."),
    ),
    "dtype_differs": (
        _("“%(tensor)s” is configured as %(configured)s; the graph has %(real)s."),
        _("Correct the data type in the interface of the version, and release it anew."),
    ),
    "embedded_triton": (
        _("This is the Triton that comes with Covenant (server %(server)s) with its own backend."),
        "",
    ),
    "external_data_missing": (
        _("The graph’s weights lie in “%(path)s”, which is not there."),
        _("Upload model.onnx and its data file together, export and release anew."),
    ),
    "external_data_outside": (
        _("The graph refers to data outside of its folder: “%(path)s”."),
        _("Save the model with its data file beside it; no node follows such a path."),
    ),
    "external_data_short": (
        _("“%(name)s” has %(present)s, the graph needs %(needed)s of it: it was cut off."),
        _AGAIN,
    ),
    "file_missing": (_("%(name)s is missing in the version’s folder."), _AGAIN),
    "file_unexpected": (
        _("%(name)s does not belong into the version’s folder."),
        _("Nobody signed it. Find out who put it there, and deploy the version again."),
    ),
    "files_open": (
        _("All %(paths)s folders and files may be read by everybody; %(free)s are free."),
        "",
    ),
    "files_readable": (
        _(
            "The user %(user)s, as whom Triton runs, reads all %(paths)s folders and files; "
            "%(free)s are free."
        ),
        "",
    ),
    "gpu_missing": (
        _("The configuration asks for a GPU; this node has none."),
        _(
            "Deploy the version again to have the configuration written for this node, or choose "
            "a GPU node."
        ),
    ),
    "gpu_unknown": (
        _("The configuration asks for GPU %(gpu)s; this node has %(gpus)s."),
        _("Correct the node’s list of GPUs, and deploy the version again."),
    ),
    "inodes_few": (
        _("The file system has few inodes left (%(free)s)."),
        _("Remove small files on that disk."),
    ),
    "inodes_gone": (
        _("The file system has no inode left: no file can be made."),
        _("Remove small files on that disk; bytes may well be free."),
    ),
    "input_missing": (
        _("The graph needs the input “%(tensor)s”, which the configuration does not have."),
        _("Add it to the interface of the version, and release it anew."),
    ),
    "input_unknown": (
        _("The configuration has an input “%(tensor)s”; the graph knows %(known)s."),
        _("Use the graph’s own name, and release the version anew."),
    ),
    "interface_differs": (
        _("The inputs or outputs of the configuration are not those of the graph."),
        _(
            "The step “Configuration, strictly” names the tensor. Correct it, and release the "
            "version anew."
        ),
    ),
    "ir_version_too_new": (
        _("The file has IR version %(found)s; this node’s ONNX Runtime loads up to %(most)s."),
        _("Save it with an older IR version (model.ir_version = 8), or deploy to a newer Triton."),
    ),
    "library_does_not_load": (
        _("A library of the backend does not load: %(library)s%(symbol)s%(glibc)s"),
        _("It was built for another system; use the one of this Triton release."),
    ),
    "log_error": (_("Triton says: %(said)s"), _("Read the log lines below; they name the place.")),
    "log_silent": (_("Triton’s log has no error about this version."), ""),
    "log_unreadable": (
        _("The worker of this node cannot read Triton’s log (%(path)s)."),
        _("Give the node the label triton_log with the path of the log as its worker sees it."),
    ),
    "no_gpu": (_("The node has no GPU: there is no driver to compare."), ""),
    "not_inspected": (
        _("The graph could not be looked into: %(said)s"),
        _("Try it again when the node has memory to spare."),
    ),
    "not_on_node": (
        _("The files are not on the node now: what would be placed was looked at."),
        "",
    ),
    "not_readable": (
        _(
            "The user %(user)s, as whom Triton runs, may not read %(path)s (%(mode)s, of "
            "%(owner)s)."
        ),
        _("Give that user the right to read (and to enter folders), then reconcile the node."),
    ),
    "onnx_damaged": (
        _("The ONNX file is damaged: there is no readable graph in it."),
        _AGAIN,
    ),
    "onnx_invalid": (_("onnx.checker refuses the graph."), _ANEW),
    "onnx_not_loadable": (
        _("ONNX Runtime %(runtime)s does not load the graph."),
        _("Read its words below. Replace what it names, and export the model again."),
    ),
    "onnx_sound": (
        _("A sound graph of %(nodes)s operators; ONNX Runtime %(runtime)s loads it."),
        "",
    ),
    "operator_library_missing": (
        _("The library of custom operators %(path)s is not on this node."),
        _("Put it at the same place on every node (COVENANT_CUSTOM_OP_LIBRARIES)."),
    ),
    "operator_not_implemented": (
        _("ONNX Runtime has no kernel for %(operator)s with these data types."),
        _("Cast to FP32 before it, and export the model again."),
    ),
    "operator_unknown": (
        _("This node’s ONNX Runtime does not know the operator %(operator)s."),
        _("Replace it by standard operators, offer its library, or deploy to a newer Triton."),
    ),
    "opset_too_new": (
        _("The graph uses opset %(found)s; this node’s ONNX Runtime loads up to %(most)s."),
        _("Export with an older opset (17 runs everywhere), or deploy to a newer Triton."),
    ),
    "opset_too_old": (
        _("The graph uses opset %(found)s, which ONNX Runtime does not load any more."),
        _("Export again with opset 17."),
    ),
    "out_of_memory": (
        _("There was not enough memory to load the version."),
        _(
            "Unload a version that carries no traffic, lower the number of instances, or choose "
            "another node."
        ),
    ),
    "output_unknown": (
        _("The configuration has an output “%(tensor)s”; the graph knows %(known)s."),
        _("Use the graph’s own name, and release the version anew."),
    ),
    "perhaps_unreadable": (
        _(
            "Not everybody may read %(path)s (%(mode)s, of %(owner)s), and Triton’s user is not "
            "known here."
        ),
        _("See that the user of Triton may read it."),
    ),
    "plan_of_other_release": (
        _("The TensorRT plan was built by another release of TensorRT."),
        _("Build the plan on this node."),
    ),
    "platform_unknown": (
        _("Triton does not know the platform “%(platform)s”."),
        _("Covenant writes onnxruntime_onnx: deploy the version again."),
    ),
    "preferred_too_large": (
        _("A preferred batch size is larger than max_batch_size."),
        _("Lower it in the version’s tuning, and release it anew."),
    ),
    "release_fits": (
        _(
            "Server %(server)s with ONNX Runtime %(runtime)s: up to opset %(opset)s and IR "
            "version %(ir_version)s."
        ),
        "",
    ),
    "release_older": (
        _("The node runs Triton %(release)s; the version was made for %(target)s."),
        _(
            "What the newer release knows may be missing here: update the node, or export for "
            "%(release)s."
        ),
    ),
    "release_unknown": (
        _(
            "Server %(server)s is not in the table of releases, so opset and driver were not "
            "compared."
        ),
        _("Triton’s own words in the first step are what counts."),
    ),
    "repository_missing": (
        _("The node’s worker does not see the model repository: %(path)s is not there."),
        _("Mount it on the worker’s machine at the path that the node was registered with."),
    ),
    "repository_unwritable": (
        _("The node’s worker may not write into the model repository."),
        _("Check its owner, and whether the disk is mounted read-only."),
    ),
    "serves": (_("It is loaded and serves; nothing is wrong."), ""),
    "serves_still": (_("It is loaded and serves."), ""),
    "signed_file_replaced": (
        _("A file of the version is not the one that its release signed."),
        _("Ask for a new release of this version."),
    ),
    "start_timed_out": (
        _("The model’s process did not start in time."),
        _("The node was too busy: try again, or give the backend a longer time-out."),
    ),
    "stored_file_missing": (
        _("A file of the version is missing in Covenant’s own store."),
        _("Restore it from a backup; its digest is on the version’s page."),
    ),
    "trial_failed": (
        _("Loaded once more under a name of its own, it failed again."),
        "",
    ),
    "trial_impossible": (_("It could not be tried once more: %(said)s"), ""),
    "trial_loaded": (
        _("Loaded once more under a name of its own, it loads now."),
        _("What was wrong is gone (memory, disk, a file): deploy the version again."),
    ),
    "trial_loads": (_("Loaded once more under a name of its own, it loads."), ""),
    "triton_key_refused": (
        _("Triton refuses the key with which Covenant manages its models."),
        _("Start Triton with the key of COVENANT_TRITON_KEY."),
    ),
    "triton_unreachable": (
        _("Triton does not answer on this node."),
        _("See that it runs, and that its gRPC address is right."),
    ),
    "version_folder_missing": (
        _("Triton found no folder of a version that it may load."),
        _AGAIN,
    ),
    "version_left_out": (
        _("The version policy loads %(versions)s; version %(number)s is not among them."),
        _("Covenant writes “all”: deploy the version again."),
    ),
    "warmup_differs": (
        _(
            "The warm-up file of “%(name)s” is too short: the configuration expects %(expected)s "
            "bytes."
        ),
        _("The recorded sample does not fit the interface: validate the version again."),
    ),
    "warmup_missing": (_("The warm-up file %(path)s is missing."), _AGAIN),
}

SIZES: Final = frozenset({"bytes", "free", "needed", "lacking", "present", "total"})


@dataclass(frozen=True, slots=True)
class Told:
    """A finding in words."""

    code: str
    verdict: str
    title: str
    mend: str
    evidence: str


@dataclass(frozen=True, slots=True)
class ToldStep:
    """A step in words, its findings worst first."""

    name: str
    title: str
    asks: str
    verdict: str
    findings: list[Told]


def told(finding: Finding) -> Told:
    """The finding in the reader's language; a code without words is shown as it is."""
    title, mend = WORDS.get(finding.code, (finding.code, ""))
    data = _shown(finding.data)
    return Told(
        finding.code,
        finding.verdict,
        str(title) % data,
        str(mend) % data if mend else "",
        finding.evidence,
    )


def told_step(step: Step) -> ToldStep:
    """The step in the reader's language."""
    return ToldStep(
        step.name,
        str(NAMES[step.name]),
        str(ASKS[step.name]),
        step.verdict,
        [told(one) for one in step.findings],
    )


def cause_of(steps: list[Step], code: str) -> Told | None:
    """The finding that explains it best, in words: the one with evidence, where there are two."""
    found = [one for step in steps for one in step.findings if one.code == code]
    bad = [one for one in found if one.verdict == "bad"] or found
    full = max(bad, key=lambda one: (len(one.data), bool(one.evidence)), default=None)
    return told(full) if full is not None else None


def _shown(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sizes in bytes as people read them; what a finding does not know is a dash."""
    shown = {
        name: filesizeformat(value) if name in SIZES and isinstance(value, int) else value
        for name, value in data.items()
    }
    return defaultdict(lambda: "—", shown)
