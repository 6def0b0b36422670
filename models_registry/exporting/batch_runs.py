"""The exported model at each batch size: does it run, how fast, with how much memory?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from models_registry.exporting import checks, measuring, reference, sampling
from models_registry.exporting.protocol import Check, Json, ValidateRequest
from models_registry.exporting.sampling import Array, Feeds
from models_registry.exporting.sessions import Session

Run = Callable[[Feeds, str], list[Array]]
_TITLE = "Runs at other batch sizes"


def measure(request: ValidateRequest, session: Session, run: Run) -> tuple[list[Check], list[Json]]:
    """Rows of the report, smallest batch first, and whether other batch sizes run.

    1, 2, 4 … up to the largest of the request, as far as memory and time allow; without a batch
    axis one run of the model as it is. `run` refuses a size at which the model fails.
    """
    specs, ranges = reference.drawn(request), request.facts.ranges
    if reference.batch_of(request.facts) is None:
        sizes = reference.sizes_at(request, 1)
        feeds = sampling.feeds_for(specs, sizes, (request.seed, 0), ranges)
        skipped = Check(
            "batch_sizes",
            _TITLE,
            checks.BEHAVIOUR,
            "skipped",
            detail="The model has no batch axis that Triton could use.",
        )
        row = measuring.timed(partial(session.run, feeds), 1, request.timed_runs)
        return [skipped], [row]
    rows: list[Json] = []
    growth = measuring.Growth(request.inference_seconds)
    for count in measuring.sizes(max(request.batches), request.batches):
        if not growth.fits(count):
            break
        feeds = sampling.feeds_for(
            specs, reference.sizes_at(request, count), (request.seed, 0, count), ranges
        )
        run(feeds, f"a batch of {count}")
        row = measuring.timed(partial(session.run, feeds), count, request.timed_runs)
        growth.saw(count, row["p50_ms"] / 1000.0, row["peak_bytes"])
        rows.append(row)
    return [_ran(rows, growth.stopped)], rows


def _ran(rows: list[Json], stopped: Json) -> Check:
    done = ", ".join(str(row["batch"]) for row in rows)
    if not stopped:
        return Check(
            "batch_sizes",
            _TITLE,
            checks.BEHAVIOUR,
            "passed",
            done,
            detail=f"Ran at batch sizes {done}.",
        )
    return Check(
        "batch_sizes",
        _TITLE,
        checks.BEHAVIOUR,
        "warning",
        done,
        detail=f"Ran at batch sizes {done}. A batch of {stopped['batch']} was not tried: it would "
        f"take about {stopped['seconds']:.1f} s and {stopped['bytes'] // checks.MIB} MiB here.",
        fix="Nothing has to be done: the largest batch of the configuration is lowered to one that "
        "ran. Set a larger one by hand for a node that can take it.",
    )
