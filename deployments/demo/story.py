"""The main job, end to end, by the same API that people use: each step says what it proved."""

from __future__ import annotations

import http.client
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from console.rules import dsse
from deployments.cli.client import CliError
from deployments.demo import promise, rollout, training_sample
from deployments.demo.checkpoints import FAILING_FEATURES
from deployments.demo.people import SEATS, Person
from deployments.demo.traffic import Caller, Tally, call
from models_registry.rules import bundles

MODEL = "fraud_detector"
ENVIRONMENT, STAGING = "production", "staging"
ENDPOINT = f"{ENVIRONMENT}/{MODEL}"
# A machine that is busy with other things may be slow once; a model that is slow stays slow.
MOST_LOAD_TESTS = 3
INPUTS = [{"name": "features", "dtype": "FP32", "dims": ["batch", 10], "min": -10, "max": 10}]
OUTPUTS = [{"name": "risk_score", "dtype": "FP32", "dims": ["batch", 1]}]


@dataclass(slots=True)
class Story:
    """Who takes part, where callers call, and how a step is told."""

    dana: Person
    sam: Person
    bea: Person
    gateway: str
    say: Callable[[str], None]
    number: int = 0

    def step(self, title: str, act: Callable[[], str]) -> None:
        """Run one step and print what it proved and how long it took."""
        self.number += 1
        started = time.monotonic()
        proof = act()
        took = time.monotonic() - started
        self.say(f"{self.number:2}. {title:38} {took:6.2f} s   {proof}")

    def tell(self) -> None:
        """Everything, in order; a second telling reuses what is there and moves traffic again."""
        with tempfile.TemporaryDirectory() as folder:
            self.step("Build two seeded checkpoints", lambda: self._build(Path(folder)))
            self.step("Register the model, fill its seats", self._register)
            self.step("Upload, export and validate v1", lambda: self._push_first(Path(folder)))
            self.step("Record what v1 was trained on", lambda: self._trained(Path(folder)))
            self.step("Propose the contract", self._propose)
            self.step("Three people sign it", self._sign)
            self.step("Verify the bundle offline", self._verify)
            self.step("Production refuses what is unapproved", lambda: self._refused(1))
            self.step("Deploy v1 to staging", lambda: self._stage(1))
            self.step("Production refuses what is untested", lambda: self._untested(1))
            self.step("Load-test v1 in staging", lambda: self._load_test(1, "step", 10))
            self.step("The SRE approves v1", lambda: self._approve(1))
            self.step("Deploy v1 to the node", lambda: self._deploy(1))
            self.step("Callers call the endpoint", self._first_traffic)
            self.step("Upload, export and validate v2", lambda: self._push_second(Path(folder)))
        self.step("Deploy v2 to staging meanwhile", lambda: self._deploy_beside(STAGING))
        self.step("Load-test v2 in staging", lambda: self._load_test(2, "mixed", 6))
        self.step("The SRE approves v2", lambda: self._release_and_approve(2))
        self.step("Deploy v2 while v1 serves", lambda: self._deploy_beside(ENVIRONMENT))
        self.step("Move 5 % to v2", lambda: self._split({1: 95, 2: 5}))
        self.step("Move to 50/50", lambda: self._split({1: 50, 2: 50}))
        self.step("A real input makes v2 fail", self._fault)
        self.step("Roll back under load", self._roll_back)
        self.step("The same input now", self._healed)
        self.step("A rollout of v2 takes itself back", self._rollout)
        self.step("What moved first", lambda: promise.first_mover(self.sam.client, ENDPOINT))
        self.step("Every request is counted", self._counted)
        self.step("The month on paper", lambda: promise.on_paper(self.bea.client, ENDPOINT))

    def _build(self, folder: Path) -> str:
        subprocess.run(  # a program of its own: torch stays out of this process
            [sys.executable, "-m", "deployments.demo.checkpoints", str(folder)],
            check=True,
            timeout=120,
            cwd=Path(__file__).resolve().parents[2],
        )
        files = sorted(p for p in folder.iterdir())
        return ", ".join(f"{p.name} ({p.stat().st_size / 1024:.1f} KiB)" for p in files)

    def _register(self) -> str:
        try:
            self.dana.client.get(f"/models/{MODEL}/")
        except CliError as error:
            if error.code != "not_found":
                raise
            self.dana.client.post(
                "/models/",
                {
                    "name": MODEL,
                    "description": "Scores card payments for fraud.",
                    "risk_class": "medium",
                    "seats": SEATS,
                },
            )
        return ", ".join(f"{seat}: {name}" for seat, name in SEATS.items())

    def _push_first(self, folder: Path) -> str:
        return self._push(1, folder / "fraud_detector_v1.pt", {})

    def _trained(self, folder: Path) -> str:
        return training_sample.record(self.dana.client, model=MODEL, number=1, folder=folder)

    def _push_second(self, folder: Path) -> str:
        code = self._upload_once(2, folder / "fraud_detector_v2.py")
        return self._push(
            2,
            folder / "fraud_detector_v2.pt",
            {"code_upload": code, "module_entry": "fraud_detector_v2.py:FraudDetector"},
        )

    def _upload_once(self, number: int, path: Path) -> str:
        return "" if self._version(number) else str(self.dana.client.upload(path)["id"])

    def _push(self, number: int, path: Path, more: dict[str, Any]) -> str:
        version = self._version(number)
        if version is None:
            upload = self.dana.client.upload(path)
            self.dana.client.post(
                f"/models/{MODEL}/versions/",
                {
                    "upload": upload["id"],
                    "inputs": INPUTS,
                    "outputs": OUTPUTS,
                    "model_class": "tabular",
                    "notes": "From the demo.",
                    **more,
                },
            )
        for job in ("export_job", "validate_job"):
            self._ended(self._must_have(number)[job])
        version = self._must_have(number)
        if version["state"] != "validated":
            raise CliError(f"{MODEL} v{number} is {version['state']}: {version.get('rejection')}")
        report = self.dana.client.get(f"/models/{MODEL}/versions/{number}/report/")
        worst = max(o["max_abs"] for o in report["equivalence"]["outputs"])
        verdicts = Counter(check["verdict"] for check in report["checks"])
        return (
            f"{version['source_format']} → ONNX opset {version['facts']['opset']}; "
            f"{verdicts['passed']} checks passed, {verdicts['failed']} failed, "
            f"{report['equivalence']['samples']} comparisons, worst difference {worst:.1e}"
        )

    def _propose(self) -> str:
        found = self._contract()
        if found is None:
            document = (Path(__file__).parent / "contract.yaml").read_bytes()
            found = self.dana.client.request(
                "POST",
                f"/models/{MODEL}/contracts/",
                content=document,
                headers={"Content-Type": "application/yaml"},
            ).json()
        return f"contract {found['revision']}, digest {found['digest'][:16]}…"

    def _sign(self) -> str:
        found = self._contract()
        if found is None:
            raise CliError("The contract is gone.")
        path = f"/models/{MODEL}/contracts/{found['revision']}"
        if found["state"] == "proposed":
            for person in (self.dana, self.sam, self.bea):
                payload = person.client.content(f"{path}/payload/")
                envelope = person.sign(dsse.CONTRACT_PAYLOAD_TYPE, payload)
                person.client.post(f"{path}/signatures/", {"envelope": envelope})
        state = self.dana.client.get(f"{path}/")["state"]
        return f"dana, sam and bea, each with their own key: {state.replace('_', ' ')}"

    def _verify(self) -> str:
        found = self._contract()
        if found is None:
            raise CliError("The contract is gone.")
        bundle = self.bea.client.content(f"/models/{MODEL}/contracts/{found['revision']}/bundle/")
        report = bundles.verify_bundle(bundle)
        if not report.ok:
            raise CliError("; ".join(f.text for f in report.findings))
        return f"{len(report.findings)} findings, all in order, without server or account"

    def _refused(self, number: int) -> str:
        release = self._release(number)
        if release["state"] == "approved":
            return "(approved in an earlier run)"
        try:
            self.sam.client.post("/deployments/", {"release": release["id"]})
        except CliError as error:
            return f"refused with “{error.code}”: {error.message}"
        raise CliError("An unapproved release was deployed.")

    def _stage(self, number: int) -> str:
        release = self._release(number, STAGING)
        proof = self._deploy(number, STAGING)
        return f"release to {STAGING} is {release['state']} by policy; {proof}"

    def _untested(self, number: int) -> str:
        release = self._release(number)
        if release["state"] == "approved":
            return "(approved in an earlier run)"
        try:
            self._sign_approval(release)
        except CliError as error:
            if error.code != "load_test_missing":
                raise
            return f"the signed approval is refused with “{error.code}”"
        raise CliError("A release without a load test was approved.")

    def _load_test(self, number: int, pattern: str, seconds: int) -> str:
        path = f"/models/{MODEL}/versions/{number}/load-tests/"
        earlier = self.dana.client.get(path)["results"]
        if any(one["passed"] and one["environment"] == STAGING for one in earlier):
            return "(passed in an earlier run)"
        wanted = {"environment": STAGING, "pattern": pattern, "rate": 40, "seconds": seconds}
        again = ""
        for _ in range(MOST_LOAD_TESTS):
            made = self.dana.client.post(path, wanted)
            self._ended(made["job"])
            report = self.dana.client.get(f"/load-tests/{made['id']}/")["report"]
            if report["passed"]:
                latency = report["latency_ms"]
                return (
                    f"{pattern} to 40/s: {report['requests']['sent']} requests, "
                    f"{report['success']:g} % answered, p50 {latency['p50']:.1f} ms, "
                    f"p95 {latency['p95']:.1f} ms, p99 {latency['p99']:.1f} ms{again}"
                )
            again = f" (before: {report['sentence']})"
        raise CliError(f"{MODEL} v{number} does not pass its load test: {report['sentence']}")

    def _release(self, number: int, environment: str = ENVIRONMENT) -> dict[str, Any]:
        page = self.dana.client.get(
            f"/models/{MODEL}/releases/", version=number, environment=environment
        )
        for release in page["results"]:
            if release["state"] in ("proposed", "approved"):
                return dict(release)
        return dict(
            self.dana.client.post(
                f"/models/{MODEL}/releases/",
                {"version": number, "environment": environment, "note": "Demo."},
            )
        )

    def _approve(self, number: int) -> str:
        release = self._release(number)
        if release["state"] == "proposed":
            release = self._sign_approval(release)
        return f"release to {ENVIRONMENT} is {release['state']}; five digests are signed"

    def _sign_approval(self, release: dict[str, Any]) -> dict[str, Any]:
        path = f"/models/{MODEL}/releases/{release['id']}"
        payload = self.sam.client.content(f"{path}/payload/")
        envelope = self.sam.sign(dsse.RELEASE_PAYLOAD_TYPE, payload)
        body = {"approve": True, "envelope": envelope}
        return dict(self.sam.client.post(f"{path}/approvals/", body))

    def _release_and_approve(self, number: int) -> str:
        self._release(number)
        return self._approve(number)

    def _deploy(self, number: int, environment: str = ENVIRONMENT) -> str:
        release = self._release(number, environment)
        running = self.sam.client.get(
            "/deployments/", model=MODEL, environment=environment, version=number
        )["results"]
        made = running[0] if running else None
        if made is None:
            made = self.sam.client.post("/deployments/", {"release": release["id"]})
            for placement in made["placements"]:
                self._ended(placement["job"])
            made = self.sam.client.get(f"/deployments/{made['id']}/")
        return ", ".join(
            f"{p['node']}: {p['state']} as {made['triton_model']}/{number}"
            for p in made["placements"]
        )

    def _first_traffic(self) -> str:
        with self._caller(rate=100) as caller:
            self._until(caller, 300)
        return _counts(caller.tally)

    def _deploy_beside(self, environment: str) -> str:
        with self._caller(rate=100) as caller:
            self._until(caller, 200)
            before = caller.tally.percentile_ms(0.99)
            moment = caller.mark()
            proof = self._deploy(2, environment)
            self._until(caller, len(caller.tally.answers) + 100)
        during = caller.tally.since(moment)
        return (
            f"{proof}; meanwhile {len(during.answers)} calls, {during.failed} failed, "
            f"p99 {before:.1f} → {during.percentile_ms(0.99):.1f} ms"
        )

    def _split(self, weights: dict[int, int]) -> str:
        path = f"/endpoints/{ENVIRONMENT}/{MODEL}/split/"
        revision = self.sam.client.get(path)["revision"]
        started = time.monotonic()
        answer = self.sam.client.put(
            path,
            {"weights": {str(v): w for v, w in weights.items()}, "reason": "Demo."},
            {"wait": "1"},
            **{"If-Match": f'"{revision}"'},
        ).json()
        took = (time.monotonic() - started) * 1000
        with self._caller(rate=200) as caller:
            self._until(caller, 600)
        return (
            f"revision {answer['revision']} acknowledged in {took:.0f} ms; {_counts(caller.tally)}"
        )

    def _fault(self) -> str:
        statuses = self._failing_calls()
        bad = sum(count for status, count in statuses.items() if status != 200)
        return f"40 calls by 40 people: {statuses.get(200, 0)} answered by v1, {bad} failed on v2"

    def _roll_back(self) -> str:
        with self._caller(rate=250) as caller:
            self._until(caller, 250)
            started = caller.mark()
            answer = self.sam.client.post(
                f"/endpoints/{ENVIRONMENT}/{MODEL}/rollback/",
                {"reason": "Version 2 fails on a real input."},
            )
            took = caller.mark() - started
            self._until(caller, len(caller.tally.answers) + 250)
        last = max((a.at for a in caller.tally.answers if a.version == "2"), default=started)
        return (
            f"answered in {took * 1000:.0f} ms as revision {answer['revision']}; last call on v2 "
            f"{max(0.0, last - started) * 1000:.0f} ms after the click; "
            f"{len(caller.tally.answers)} calls under load, {caller.tally.failed} failed"
        )

    def _healed(self) -> str:
        statuses = self._failing_calls()
        if set(statuses) != {200}:
            raise CliError(f"Calls still fail after the rollback: {statuses}.")
        return f"40 calls by the same people: {statuses[200]} answered"

    def _rollout(self) -> str:
        return rollout.taken_back(
            self.sam.client, gateway=self.gateway, endpoint=ENDPOINT, version=2
        )

    def _counted(self) -> str:
        return promise.counted(self.bea.client, gateway=self.gateway, endpoint=ENDPOINT)

    def _failing_calls(self) -> dict[int, int]:
        parts = urlsplit(self.gateway)
        connection = http.client.HTTPConnection(
            parts.hostname or "127.0.0.1", parts.port or 80, timeout=5
        )
        statuses: dict[int, int] = {}
        for person in range(40):
            answer = call(
                connection, f"/v2/models/{MODEL}/infer", list(FAILING_FEATURES), user=f"p{person}"
            )
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
        connection.close()
        return statuses

    def _caller(self, *, rate: float) -> Caller:
        return Caller(self.gateway, MODEL, rate=rate)

    def _until(self, caller: Caller, answers: int) -> None:
        deadline = time.monotonic() + 30
        while len(caller.tally.answers) < answers:
            if time.monotonic() > deadline:
                raise CliError("The gateway answers too slowly for the demo.")
            time.sleep(0.02)

    def _ended(self, job_id: str) -> None:
        """Wait for the job; what an earlier run of the demo left failed is tried again once."""
        if self.dana.client.get(f"/jobs/{job_id}/")["state"] in ("failed", "errored", "cancelled"):
            self.dana.client.post(f"/jobs/{job_id}/retry/")
        job = self.dana.client.wait_for_job(job_id)
        if job["state"] != "succeeded":
            raise CliError(
                f"{job['kind']} of {job['subject']} {job['state']}: {job['error']['message']}",
                hint=job["error"]["hint"],
            )

    def _version(self, number: int) -> dict[str, Any] | None:
        try:
            return dict(self.dana.client.get(f"/models/{MODEL}/versions/{number}/"))
        except CliError as error:
            if error.code == "not_found":
                return None
            raise

    def _must_have(self, number: int) -> dict[str, Any]:
        version = self._version(number)
        if version is None:
            raise CliError(f"{MODEL} v{number} is gone.")
        return version

    def _contract(self) -> dict[str, Any] | None:
        page = self.dana.client.get(f"/models/{MODEL}/contracts/")
        return next(
            (dict(c) for c in page["results"] if c["state"] in ("proposed", "in_force")), None
        )


def _counts(tally: Tally) -> str:
    shares = ", ".join(f"v{v}: {n}" for v, n in sorted(tally.by_version.items()))
    return (
        f"{len(tally.answers)} calls ({shares}), {tally.failed} failed, "
        f"p50 {tally.percentile_ms(0.5):.1f} ms, p99 {tally.percentile_ms(0.99):.1f} ms"
    )
