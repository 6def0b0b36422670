"""Send a folder of model files through the console, and say what became of each.

    python -m benchmarks.corpus FOLDER [--only TEXT] [--out TABLE.md] [--cuts N]

Each sub-folder holds a CASE.json: {"name", "expect": accept | reject | accept-if | warn | safe,
"upload": file, "also"?: [files], "upload_filename"?, "needs"?: {"source": file, "cls": class},
"inputs"?: [...], "marker"?: a path that must not appear, "golden"?: [npz files whose `meta` names
inputs and outputs]}. Goldens are run on the exported ONNX file. With --cuts each file is sent cut
off at N random places instead, where anything but an error will do. Needs the embedded stack after
`make demo`; ends with status 1 when a case did not go as expected.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from benchmarks.demo_stack import person
from deployments.cli.client import Client, CliError

JOB_SECONDS = 300.0
TOLERANCE = {"f2": 2e-2, "f4": 2e-4, "f8": 1e-9}


@dataclass
class Outcome:
    """What the console did: accepted | refused (on creation) | rejected (by a job) | error."""

    got: str
    words: str = ""
    warnings: list[str] = field(default_factory=list)
    number: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cuts", type=int, default=0)
    chosen = parser.parse_args()
    client = person("dana")
    rows = []
    for path in sorted(chosen.folder.glob("*/CASE.json")):
        if chosen.only in path.parent.name:
            case = json.loads(path.read_text("utf-8"))
            row = (_cut_row if chosen.cuts else _row)(client, path.parent, case, chosen.cuts)
            rows.append(row)
            print(*row, sep=" | ", flush=True)
    if chosen.out:
        lines = ["| case | expected | got | seconds | as expected | in words |", "|---" * 6 + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
        chosen.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    wrong = [row[0] for row in rows if row[4] != "yes"]
    print(f"{len(rows)} cases, {len(wrong)} not as expected: {', '.join(wrong) or '-'}")
    sys.exit(bool(wrong))


def _cut_row(client: Client, folder: Path, case: Mapping[str, Any], cuts: int) -> tuple[str, ...]:
    """The case's file cut off at seeded places: how often it ended in which way."""
    started = time.monotonic()
    whole = (folder / str(case["upload"])).read_bytes()
    drawn = random.Random(str(case["name"]))
    counts: Counter[str] = Counter()
    errors = []
    for place in sorted(drawn.randrange(len(whole)) for _ in range(cuts if whole else 0)):
        with tempfile.TemporaryDirectory() as home:
            for file in folder.iterdir():
                shutil.copy(file, home)
            Path(home, str(case["upload"])).write_bytes(whole[:place])
            outcome = _sent(client, Path(home), case, with_source=True)
        counts[outcome.got] += 1
        if outcome.got == "error":
            errors.append(f"at {place}: {outcome.words}")
    got = ", ".join(f"{count} {name}" for name, count in counts.items())
    seconds = f"{time.monotonic() - started:.1f}"
    return (
        case["name"],
        "no error",
        got,
        seconds,
        "NO" if errors else "yes",
        "; ".join(errors)[:300],
    )


def _row(client: Client, folder: Path, case: Mapping[str, Any], _cuts: int) -> tuple[str, ...]:
    started = time.monotonic()
    needs = case.get("needs") or {}
    bare = _sent(client, folder, case, with_source=False) if needs else None
    outcome = _sent(client, folder, case, with_source=True)
    seconds = time.monotonic() - started
    golden = ""
    if outcome.got == "accepted" and case.get("golden"):
        golden = _goldens(client, folder, case, outcome.number)
    said = "; ".join(filter(None, (golden, outcome.words, *outcome.warnings)))
    if bare is not None:
        said = f"without source {bare.got}; {said}"
    fine = _as_expected(str(case["expect"]), outcome, bare) and not golden.startswith(
        "golden differs"
    )
    if marker := case.get("marker"):
        fine = fine and not Path(str(marker)).exists()
    words = " ".join(said.split()).replace("|", "/")[:300]
    got = outcome.got + (" with warnings" if outcome.warnings else "")
    return case["name"], case["expect"], got, f"{seconds:.1f}", "yes" if fine else "NO", words


def _as_expected(expect: str, outcome: Outcome, bare: Outcome | None) -> bool:
    explained = outcome.got == "accepted" or bool(outcome.words)
    if outcome.got == "error" or not explained or (bare is not None and bare.got == "error"):
        return False
    if expect == "reject":
        return outcome.got in {"refused", "rejected"}
    if expect == "warn":
        return outcome.got == "accepted" and bool(outcome.warnings)
    if expect == "accept-if":
        return bare is None or (bare.got in {"refused", "rejected"} and bool(bare.words))
    return expect == "safe" or outcome.got == "accepted"


def _sent(client: Client, folder: Path, case: Mapping[str, Any], *, with_source: bool) -> Outcome:
    model = re.sub(r"[^a-z0-9]+", "_", f"corpus_{case['name']}".lower())[:60].strip("_")
    try:
        try:
            client.get(f"/models/{model}/")
        except CliError:
            client.post(
                "/models/", {"name": model, "description": str(case.get("reason", ""))[:200]}
            )
        created = _created(client, folder, case, model, with_source=with_source)
    except CliError as error:
        server = error.code in {"500", "502", "503"} or error.exit_code == 3
        return Outcome("error" if server else "refused", f"{error.code}: {error.message}")
    return _ended(client, model, created["number"])


def _created(
    client: Client, folder: Path, case: Mapping[str, Any], model: str, *, with_source: bool
) -> Any:
    upload = folder / str(case["upload"])
    name = str(case.get("upload_filename") or upload.name)
    body: dict[str, Any] = {
        "upload": client.upload(upload, filename=name)["id"],
        "inputs": _inputs(folder, case),
        "notes": f"{time.time_ns()}",
    }
    also = [folder / file for file in case.get("also", ())]
    if also and upload.suffix == ".onnx":
        body["data_uploads"] = [client.upload(file)["id"] for file in also if file != upload]
    needs = case.get("needs") or {}
    if needs and with_source:
        body["code_upload"] = client.upload(folder / needs["source"])["id"]
        body["module_entry"] = f"{needs['source']}:{needs['cls'].removesuffix('()')}"
    return client.post(f"/models/{model}/versions/", body)


def _ended(client: Client, model: str, number: int) -> Outcome:
    """Wait for both jobs; what they said when they ended badly."""
    address = f"/models/{model}/versions/{number}/"
    deadline = time.monotonic() + JOB_SECONDS
    while time.monotonic() < deadline:
        version = client.get(address)
        if version["state"] == "validated":
            report = client.get(f"{address}report/")
            warnings = [str(text) for text in version["facts"].get("warnings", ())]
            warnings += [c["detail"] for c in report["checks"] if c["verdict"] == "warning"]
            return Outcome("accepted", "", warnings, number)
        if version["state"] == "rejected":
            return Outcome("rejected", version["rejection"], [], number)
        jobs = [version[key] for key in ("export_job", "validate_job") if version.get(key)]
        for job in (client.get(f"/jobs/{job_id}/") for job_id in jobs):
            if job["state"] in {"errored", "cancelled"}:
                return Outcome("error", f"job {job['state']}: {job['error']}", [], number)
        time.sleep(0.2)
    return Outcome("error", f"no end within {JOB_SECONDS:.0f} s", [], number)


def _inputs(folder: Path, case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """As the case says, else as its goldens show: the first axis and whatever differs is free."""
    if "inputs" in case:
        return [
            {
                "name": i["name"],
                "dtype": i["dtype"],
                "dims": ["batch" if d == "N" else d for d in i["shape"]],
            }
            for i in case["inputs"]
        ]
    metas = [_meta(folder / name) for name in case.get("golden", ())]
    if not metas or not str(case["kind"]).startswith("torch"):
        return []
    described = []
    for number, first in enumerate(metas[0]["inputs"]):
        shapes = [meta["inputs"][number]["shape"] for meta in metas]
        dims: list[int | str] = [
            size if len({shape[axis] for shape in shapes}) == 1 else f"dim_{axis}"
            for axis, size in enumerate(shapes[0])
        ]
        described.append(
            {
                "name": first["name"],
                "dtype": first["dtype"],
                "dims": ["batch", *dims[1:]] if dims else [],
            }
        )
    return described


def _meta(path: Path) -> Any:
    with np.load(path, allow_pickle=False) as archive:
        return json.loads(str(archive["meta"]))


def _goldens(client: Client, folder: Path, case: Mapping[str, Any], number: int) -> str:
    """Run the recorded inputs on the exported file; the largest error against their outputs."""
    model = re.sub(r"[^a-z0-9]+", "_", f"corpus_{case['name']}".lower())[:60].strip("_")
    address = f"/models/{model}/versions/{number}/artifacts"
    worst = 0.0
    with tempfile.TemporaryDirectory() as home:
        path = Path(home, "model.onnx")
        path.write_bytes(client.content(f"{address}/onnx"))
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        for name in case["golden"]:
            with np.load(folder / name, allow_pickle=False) as archive:
                meta = json.loads(str(archive["meta"]))
                feeds = _feeds(session, meta["inputs"], archive)
                wanted = [(spec["name"], archive[spec["key"]]) for spec in meta["outputs"]]
            answers = dict(
                zip((o.name for o in session.get_outputs()), session.run(None, feeds), strict=True)
            )
            for index, (label, golden) in enumerate(wanted):
                ours = answers.get(label, list(answers.values())[min(index, len(answers) - 1)])
                worst = max(worst, _error(np.asarray(ours), golden))
    return f"golden {'differs' if worst > 1 else 'agrees'} ({worst:.2g} of the tolerance)"


def _feeds(session: Any, specs: Sequence[Mapping[str, Any]], archive: Any) -> dict[str, Any]:
    feeds = {}
    for place, spec in zip(session.get_inputs(), specs, strict=False):
        named = next((s for s in specs if s["name"] == place.name), spec)
        array = archive[named["key"]]
        kinds = {
            "tensor(float)": np.float32,
            "tensor(double)": np.float64,
            "tensor(string)": object,
        }
        feeds[place.name] = array.astype(kinds.get(place.type, array.dtype))
    return feeds


def _error(ours: Any, golden: Any) -> float:
    """The largest error in units of the tolerance; a trailing axis of 1 makes no difference."""
    if golden.dtype.kind not in "fc":
        same = ours.astype(str).reshape(-1).tolist() == golden.astype(str).reshape(-1).tolist()
        return 0.0 if same else np.inf
    if ours.size != golden.size:
        return np.inf
    kind = min(f"f{golden.dtype.itemsize}", ours.dtype.str[1:])
    allowed = TOLERANCE.get(kind, 2e-4)
    difference = np.abs(ours.reshape(-1).astype("f8") - golden.reshape(-1).astype("f8"))
    scale = 1.0 + np.abs(golden.reshape(-1).astype("f8"))
    both_nan = np.isnan(ours.reshape(-1).astype("f8")) & np.isnan(golden.reshape(-1).astype("f8"))
    return float(np.max(np.where(both_nan, 0.0, difference / scale / allowed), initial=0.0))


if __name__ == "__main__":
    main()
