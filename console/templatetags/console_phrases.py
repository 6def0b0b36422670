"""Fixed English phrases that jobs and reports store, for the reader in their own language.

Services and the sandbox write plain English into the database: the steps of a job, the titles of a
report's checks, the reasons of a setting. What is said again and again is listed here; a phrase
that is not listed is shown as it was stored. `{x}` stands for whatever is stored there; `{t}` is a
phrase itself.
"""

from __future__ import annotations

import re
from typing import Final

from django.utils.translation import gettext, gettext_lazy
from django.utils.translation import gettext_noop as _

JOB_KINDS: Final = {
    "export": gettext_lazy("Export to ONNX"),
    "validate": gettext_lazy("Validate"),
    "load_test": gettext_lazy("Load test"),
    "build_plan": gettext_lazy("Build a TensorRT plan"),
    "deploy": gettext_lazy("Deploy to a node"),
    "unload": gettext_lazy("Unload from a node"),
    "rollback": gettext_lazy("Roll back"),
    "deliver_alert": gettext_lazy("Tell of an alert"),
    "sla_report": gettext_lazy("Mail a promise’s report"),
    "reconcile": gettext_lazy("Reconcile a node"),
    "audit_verify": gettext_lazy("Verify the audit trail"),
    "audit_retain": gettext_lazy("Put old audit entries into an archive"),
    "verify": gettext_lazy("Verify a node"),
    "diagnose": gettext_lazy("Find out why it does not load"),
}
FAULT_KINDS: Final = {
    "edited": gettext_lazy("edited"),
    "deleted": gettext_lazy("removed"),
    "inserted": gettext_lazy("put in"),
    "reordered": gettext_lazy("moved"),
    "cut": gettext_lazy("cut off"),
    "extended": gettext_lazy("added"),
    "checkpoint": gettext_lazy("checkpoint"),
    "rewritten": gettext_lazy("rewritten"),
}
OBJECTIVES: Final = {
    "latency": gettext_lazy("Latency"),
    "availability": gettext_lazy("Availability"),
}

ANSWERS: Final = {
    "rescued": gettext_lazy("Failed at first, answered by another attempt"),
    "timeout": gettext_lazy("No answer in time"),
    "no_node": gettext_lazy("No node was there to answer"),
    "caller_left": gettext_lazy("The caller left before there was an answer"),
    "unblamed": gettext_lazy("Counts against nobody by the contract"),
}

STEPS: Final = (
    _("Making the report"),
    _("Sending the report"),
    _("Preparing the sandbox"),
    _("Reading the file"),
    _("Opening the file"),
    _("Opening the source model"),
    _("Running the source model"),
    _("Trying the model"),
    _("Exporting to ONNX"),
    _("Running it at other sizes"),
    _("Checking the graph"),
    _("Comparing answers"),
    _("Measuring latency"),
    _("Storing the plan"),
    _("Running it at the original's sizes"),
    _("Preparing"),
    _("Opening the original"),
    _("Making it lighter"),
    _("Exporting once more, to compare"),
    _("Building the plan"),
    _("Measuring latency and memory"),
    _("Storing the ONNX file"),
    _("Rendering the configuration"),
    _("Verifying signatures and digests"),
    _("Placing files"),
    _("Loading in Triton"),
    _("Waiting until it is ready"),
    _("Warming up"),
    _("Smoke test"),
    _("Offering it to the gateways"),
    _("Taking it from the gateways"),
    _("Waiting for requests under way"),
    _("Unloading"),
    _("Waiting for the gateways"),
    _("Watching that nobody is left behind"),
    _("Comparing what is there with what should be"),
    _("Loading {x}"),
    _("Verifying {x}"),
    _("Trying one request"),
    _("Checking the ONNX file"),
    _("Checking the configuration"),
    _("Comparing with the node’s release"),
    _("Checking access to the files"),
    _("Reading Triton’s log"),
    _("Trying to load it"),
    _("Starting the load generator"),
    _("Writing the report"),
    _("{x} of {n} entries checked"),
    _("Archiving {x}"),
    _("Second {x} of {n}: {r} requests/s, p95 {p} ms, {f} failed"),
    _("Second {x} of {n}: {r} requests/s, no answer yet, {f} failed"),
)
CHECKS: Final = (
    _("Format"),
    _("Interface"),
    _("Behaviour"),
    _("Speed and size"),
    _("Contract"),
    _("ONNX checker"),
    _("Shape inference"),
    _("Loads on Triton {x}"),
    _("Operators that the target has"),
    _("Inputs as promised"),
    _("Outputs as promised"),
    _("Requests can be batched"),
    _("“{x}” equals the source model"),
    _("Answers are numbers"),
    _("Answers depend on the input"),
    _("Answers within the promised range"),
    _("Same input, same answer"),
    _("Runs at other batch sizes"),
    _("Latency at batch {x}"),
    _("Size and memory"),
    _("Shares add up"),
    _("Memory at batch {x}"),
    _("No contract says what an output adds up to."),
    _("Every row adds up to what the contract says."),
    _("The process grew by at most {x} MiB while it ran batches of {y}, beyond the loaded model."),
    _("{x} elements differ from {s} over {n} samples; {m} may."),
    _("Interface of the contract in force"),
    _("onnx.checker with full_check finds no fault."),
    _("ONNX Runtime {x} of that release loads both versions."),
    _("All operators are ONNX's own."),
    _("Names, data types and shapes of {x} inputs agree."),
    _("Names, data types and shapes of {x} outputs agree."),
    _("No contract names the inputs yet."),
    _("No contract names the outputs yet."),
    _("The first axis of every tensor is the batch; rows do not influence each other."),
    _("No NaN and no infinity in any answer."),
    _("Every output changes with its input."),
    _("No contract gives a range for the outputs."),
    _("All answers lie in the contract's ranges."),
    _("Two runs give the same bytes."),
    _("Ran at batch sizes {x}."),
    _("Contract {x} describes this model."),
    _("Strict inference is consistent; {x} inner tensors have a shape."),
    _(
        "Greatest absolute error {x}, relative {y}, mean {m}, p50 {b}, p95 {c}, p99 {p} over {n} "
        "samples, "
        "against {s}; allowed {a} + {r} x |value| ({w})."
    ),
    _("Mean {x} ms, p50 {y} ms, p95 {z} ms over {n} runs, one thread on the export worker's CPU."),
    _("The file has {x} MiB; the process that ran it took at most {y} MiB."),
)
REASONS: Final = (
    _("The default for a {x} model."),
    _("Triton sends whatever has gathered."),
    _("One level: every request waits its turn."),
    _("The middle of the priority levels."),
    _("One copy on each GPU, or one on a CPU."),
    _("Every request is computed."),
    _("Set for this version."),
    _("The graph has no batch dimension in every tensor."),
    _("No latency has been measured yet, so requests hardly wait for each other."),
    _("0.6 × {x} ms, the mean latency at validation."),
    _("Switched off for this version."),
    _("The recorded sample is run once before traffic."),
    _("No complete sample was recorded, so zeros are run once."),
    _("As for v{x}: {y} µs measured now is near it."),
    _("As for v{x}: what was measured now does not clearly speak for {y}."),
    _(
        "A batch of {x} took {a} ms (P95) at validation, above the contract's {b} ms; one of {c} "
        "took {d} ms."
    ),
    _(
        "Larger batches are slower: {x} rows/s at {a}, {b} at {c}, measured on the validation "
        "worker's CPU. Set it by hand for a GPU."
    ),
    _(
        "The largest batch that validation could run: one of {x} would have taken too much memory "
        "or time there."
    ),
    _(
        "Off: the gateway ends a request that takes too long. A queue time-out, a queue limit or "
        "priority levels stop Triton's batcher from preparing a batch ahead, and then it misses "
        "wake-ups: single requests wait for 500 ms, or are refused "
        "(triton-inference-server/server issue 8870; measured on release 24.10)."
    ),
    _(
        "Off: the gateway limits the requests at one time. A queue time-out, a queue limit or "
        "priority levels stop Triton's batcher from preparing a batch ahead, and then it misses "
        "wake-ups: single requests wait for 500 ms, or are refused "
        "(triton-inference-server/server issue 8870; measured on release 24.10)."
    ),
)
REFUSALS: Final = (
    _("There is none yet."),
    _("The newest one does not count: {x}."),
    _("Nothing has any traffic here yet."),
    _("It is rolled back already; name a version to go further back."),
    _("{x} has no earlier version that is ready to go back to."),
    _("It is not deployed here."),
    _("Passkeys cannot be used on this site: a passkey is bound to a name, and {x} is none."),
    _("Passkeys cannot be used on this site: {x} is not encrypted."),
)
DUTIES: Final = (_("the seat {x} of {y}"), _("the model {x}"))


INCIDENTS: Final = (
    _("Rolled back to v{x}"),
    _("The fallback answers"),
    _("The circuit is open"),
    _("v{x} fails"),
    _("v{x} is too slow"),
    _("v{x} is unhealthy"),
    _("No node that can be reached has v{x}"),
    _("v{x} does not answer rightly"),
    _("The fallback fails"),
    _("A gateway refused what was to help"),
    _("It cannot be helped by itself"),
    _("v{x} could not be deployed again"),
    _("The traffic was moved by somebody else: it is left to them."),
    _("The traffic was moved by somebody else."),
    _("Callers have been answered well since."),
    _("Every gateway acts on the rollback."),
    _("Back to normal by hand."),
    _("All traffic goes to v{x}, the last good version."),
    _("The contract’s fallback answers."),
    _("Nothing is left to answer with: callers get a clear 503."),
    _("{x} is tried by {y} % now: half-open."),
    _("{x} answers well: all callers are on it again."),
    _("The return to {x} has failed."),
    _("{x} does not answer rightly when asked directly."),
    _("Too many moves within an hour. It stays as it is: a person has to decide."),
    _("Too many returns have failed within an hour. It stays as it is: a person has to decide."),
    _(
        "There is no level left that may be taken by itself. It stays as it is: a person has to "
        "decide."
    ),
    _("v{x} is being deployed again."),
    _("v{x} is ready again."),
    _("v{x} is ready again: the rollback goes on to it."),
    _("Closed by itself: the next one has begun."),
    _("{x} of {y} requests failed ({z} %)."),
    _("{x} of {y} requests failed ({z} %), P99 {p} ms."),
)


ALERTS: Final = (
    _("Too few requests succeed"),
    _("Requests have all but stopped"),
    _("Nothing is measured of the endpoint"),
    _("Requests wait too long in the model’s queue"),
    _("The model takes too long to compute"),
    _("The model is unsure of its answers"),
    _("Requests are no longer like the training data"),
    _("NVLink is busy and the GPU is hot"),
    _("GPU memory only grows"),
    _("The node does not answer"),
    _("The error budget burns fast"),
    _("The error budget burns steadily"),
    _("The error budget will not last"),
    _("What is live is not what was signed"),
    _("A gateway does not act on the newest split"),
    _("The gateway is not connected"),
    _("A certificate is about to end"),
    _("Nothing is counted any more"),
    _("It could not be judged: {x}."),
    _("{x} more are wrong than are told."),
    _("The alert rule cannot be read."),
)
ROLLOUTS: Final = (
    _("Rollout of v{x} was taken back by its analysis"),
    _("v{x} has no traffic any more; v{y} serves."),
    _("Rollout of v{x}: step {y}."),
    _("Rollout of v{x} ended. {t}"),
    _("Rollout of v{x} ended."),
    _("{x} of {y} requests failed within {s} s ({p} %, limit {l} %)."),
    _("{x} of {y} requests took longer than {l} ms within {s} s; 1 % may."),
    _("{x} of {y} sampled answers break what the contract says of its outputs."),
    _("No node has the new version ready."),
    _("No node has the new version ready, so it cannot take traffic."),
    _("Not every gateway has acknowledged the step's weight yet."),
    _("It waits until somebody lets it go on."),
    _("Not yet measured successfully at this weight: {x}."),
)

DELIVERIES: Final = (
    _("The channel was removed."),
    _("The channel is switched off."),
    _("The account is closed."),
    _("It was over before it could be sent."),
    _("It was cancelled."),
    _("It is tried again by itself."),
    _("{x} took it"),
)


ALL: Final = (
    *STEPS,
    *CHECKS,
    *REASONS,
    *REFUSALS,
    *DUTIES,
    *INCIDENTS,
    *ALERTS,
    *ROLLOUTS,
    *DELIVERIES,
)
PLACEHOLDER: Final = re.compile(r"\\{(\w)\\}")
FIXED: Final = frozenset(text for text in ALL if "{x}" not in text)
OPEN: Final = tuple(
    (re.compile(PLACEHOLDER.sub(r"(?P<\1>.+?)", re.escape(text))), text)
    for text in ALL
    if "{x}" in text
)


def phrase(stored: object) -> str:
    """`stored` in the reader's language where it is a phrase of this file, else unchanged."""
    text = str(stored or "")
    if text in FIXED:
        return gettext(text)
    for pattern, source in OPEN:
        if found := pattern.fullmatch(text.strip()):
            holes = found.groupdict()
            if "t" in holes:
                holes["t"] = phrase(holes["t"])
            return gettext(source).format(**holes)
    return text


def job_kind(kind: str) -> str:
    """What a job of this kind does, in words."""
    return str(JOB_KINDS.get(kind, kind))


def fault_kind(kind: str) -> str:
    """What was done to the audit trail, in a word."""
    return str(FAULT_KINDS.get(kind, kind))


def answer_status(name: str) -> str:
    """A status that gateways count: HTTP's number as it is, what lies across them in words."""
    return str(ANSWERS.get(name, name))


def objective(name: str) -> str:
    """What a contract calls latency or availability, in words."""
    return str(OBJECTIVES.get(name, name))
