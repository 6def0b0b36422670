"""A small site that shows every component and speaks the protocols that the scripts expect.

Used by the tests of the design system as ROOT_URLCONF. What it answers is written down in
templates/components and at the top of each module of static/js; its memory is one `Site`.
"""

from __future__ import annotations

import hashlib
import json
import math
import queue
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template import engines
from django.urls import URLPattern, include, path
from django.utils import timezone

from console.errors import Invalid
from console.models import User

HERE = Path(__file__).resolve().parent


@dataclass
class Site:
    """What the server side of the test remembers; a test sets it up afresh."""

    revision: int = 12
    weights: dict[str, float] = field(default_factory=lambda: {"3": 95, "4": 5, "5": 0})
    author: str = "Sam"
    split_answers: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    split_requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    uploads: dict[str, dict[str, Any]] = field(default_factory=dict)
    upload_failures: list[int] = field(default_factory=list)
    posts: list[dict[str, Any]] = field(default_factory=list)
    streams: list[queue.Queue[str | None]] = field(default_factory=list)
    refreshed: int = 0
    chart_status: int = 200

    def publish(self, event: dict[str, Any]) -> None:
        for stream in self.streams:
            stream.put(json.dumps(event))

    def disconnect(self) -> None:
        for stream in self.streams:
            stream.put(None)
        self.streams.clear()


SITE = Site()


def gallery(request: HttpRequest) -> HttpResponse:
    request.user = User(  # type: ignore[assignment]
        username="dana",
        display_name="Dana Rivera",
        email="dana@example.com",
        roles=["data_scientist"],
    )
    template = engines["django"].from_string((HERE / "gallery.html").read_text())
    return HttpResponse(template.render(gallery_context(), request))


def gallery_context() -> dict[str, Any]:
    now = timezone.now()
    sha = hashlib.sha256(b"covenant").hexdigest()
    return {
        "now": now,
        "old": now - timedelta(minutes=3),
        "current_environment": {"name": "production", "is_production": True},
        "nav_section": "endpoints",
        "sha": sha,
        "states": {
            "version": ["draft", "exporting", "validated", "rejected", "archived"],
            "release": ["proposed", "approved", "refused"],
            "placement": ["pending", "loading", "ready", "draining", "failed"],
            "job": ["queued", "running", "succeeded", "failed", "errored", "cancelled"],
            "node": ["ready", "cordoned", "lost"],
            "check": ["passed", "warning", "failed", "skipped"],
            "mode": ["normal", "fallback", "open"],
            "promise": ["kept", "at_risk", "broken", "no_data"],
        },
        "wave": [40 + 18 * math.sin(i / 3) + (i % 5) for i in range(40)],
        "weights": {1: 0, 2: 10, 3: 60, 4: 30},
        "steps": [
            {"label": "Upload", "state": "done", "detail": "4.2 MiB"},
            {"label": "Export", "state": "done", "detail": "opset 17"},
            {"label": "Validate", "state": "current", "detail": "62 of 100 inputs"},
            {"label": "Contract", "state": "todo"},
            {"label": "Release", "state": "todo"},
        ],
        "steps_failed": [
            {"label": "Place the files", "state": "done", "at": now - timedelta(minutes=2)},
            {"label": "Load over gRPC", "state": "failed", "detail": "Triton refused the config"},
            {"label": "Smoke test", "state": "skipped"},
        ],
        "diff": [
            {
                "kind": "changed",
                "path": "/objectives/0/threshold_ms",
                "before": "80",
                "after": "60",
                "sentence": "P99 is promised at 60 ms instead of 80 ms.",
                "effect": "stronger",
            },
            {
                "kind": "removed",
                "path": "/errors/1",
                "before": "503 model_unavailable",
                "sentence": "Callers may no longer rely on 503 model_unavailable.",
                "effect": "breaking",
            },
            {
                "kind": "added",
                "path": "/load/qps",
                "after": "2000",
                "sentence": "2,000 requests/s are promised.",
            },
        ],
        "error": Invalid(
            "The file is not an ONNX model: its first bytes are those of a ZIP archive.",
            code="wrong_magic",
            hint="A .pt file of PyTorch is a ZIP archive. Choose the format TorchScript instead.",
        ),
        "events": [
            {
                "at": now - timedelta(seconds=40),
                "title": "Traffic moved 95/5 → 50/50",
                "actor": "Sam Okafor",
                "icon": "branch",
                "tone": "info",
                "detail": "“Error rate is flat.”",
            },
            {
                "at": now - timedelta(minutes=9),
                "title": "took its first traffic",
                "version": 4,
                "icon": "arrow-up",
                "tone": "ok",
                "url": "#",
            },
            {
                "at": now - timedelta(hours=5),
                "title": "Rolled back from v3",
                "actor": "Sam Okafor",
                "icon": "rollback",
                "tone": "bad",
            },
        ],
        "tabs": [
            {"label": "Overview", "url": "#", "current": True},
            {"label": "Versions", "url": "#", "count": 4},
            {"label": "Contract", "url": "#", "count": None},
            {"label": "Events", "url": "#", "count": 128},
        ],
        "split": {
            "url": "/api/v1/endpoints/production/fraud_detector/split/",
            "revision": SITE.revision,
            "topic": "endpoint:production/fraud_detector",
            "can_change": True,
            "requests_per_second": 420.0,
            "keep": {"sticky_header": "x-user-id"},
            "versions": [
                {"number": 3, "percent": SITE.weights["3"], "ready": True, "nodes": "local"},
                {"number": 4, "percent": SITE.weights["4"], "ready": True, "nodes": "local"},
                {
                    "number": 5,
                    "percent": SITE.weights["5"],
                    "ready": False,
                    "why_not": "still loading on node local",
                },
            ],
        },
        "effects": [
            "v3 answers 100 % of the requests within a second.",
            "v4 stays loaded and can be brought back.",
        ],
        "curl": (
            "curl -s localhost:8710/v2/models/fraud_detector/infer \\\n"
            '  -H "X-User-Id: 42" \\\n'
            '  -d \'{"inputs": [{"name": "features", "datatype": "FP32",\n'
            '       "shape": [1, 10], "data": [0.1, 0.2]}]}\''
        ),
        "facts": [
            ("Owner", "Dana Rivera"),
            ("Team", "Payments risk"),
            ("Risk class", "high"),
            ("Opset", "17"),
        ],
        "days": (
            ["kept"] * 9 + ["at_risk"] + ["kept"] * 7 + ["broken"] + ["kept"] * 8 + ["no_data"] * 4
        ),
        "nodes": [
            {"name": "local", "state": "ready", "rate": 412.5, "gpu": 61, "temp": 64},
            {"name": "gpu-a10-07", "state": "cordoned", "rate": 0.0, "gpu": 12, "temp": 41},
            {"name": "gpu-l40-02", "state": "lost", "rate": None, "gpu": None, "temp": None},
        ],
    }


def chart(request: HttpRequest, name: str) -> HttpResponse:
    if SITE.chart_status != 200:
        return problem(SITE.chart_status, "The statistics are not available.", "Try again shortly.")
    end = datetime(2026, 3, 4, 3, 20, tzinfo=UTC)
    times = [(end - timedelta(seconds=10 * (90 - i))).isoformat() for i in range(90)]
    base = {"latency": 34.0, "requests": 400.0, "errors": 0.4}.get(name, 10.0)

    def values(shift: float) -> list[float | None]:
        return [
            None if 40 < i < 44 else round(base * shift * (1 + 0.2 * math.sin(i / 5 + shift)), 3)
            for i in range(90)
        ]

    body: dict[str, Any] = {
        "series": [
            {"name": "v3", "version": 3, "x": times, "y": values(1.0)},
            {"name": "v4", "version": 4, "x": times, "y": values(0.55)},
        ],
        "markers": [{"t": times[52], "label": "95/5 → 50/50"}],
    }
    if name == "latency":
        body["limit"] = {"value": 80, "label": "contract"}
    return JsonResponse(body)


def problem(status: int, detail: str, hint: str = "", **extra: Any) -> JsonResponse:
    body = {
        "status": status,
        "title": detail,
        "detail": detail,
        "hint": hint,
        "code": "refused",
        **extra,
    }
    return JsonResponse(body, status=status, content_type="application/problem+json")


def split(request: HttpRequest) -> HttpResponse:
    if request.method == "GET":
        return JsonResponse(
            {"revision": SITE.revision, "weights": SITE.weights, "author": SITE.author}
        )
    body = json.loads(request.body)
    SITE.split_requests.append((request.headers.get("If-Match", ""), body))
    if SITE.split_answers:
        status, answer = SITE.split_answers.pop(0)
        if status >= 400:
            return problem(status, **answer)
        return JsonResponse(answer, status=status)
    if request.headers.get("If-Match") != f'"{SITE.revision}"':
        return problem(412, "The split was changed meanwhile.", "Load it and decide again.")
    SITE.revision += 1
    SITE.weights = body["weights"]
    acknowledgements = [{"gateway": "embedded", "outcome": "applied", "took_ms": 18, "reason": ""}]
    return JsonResponse(
        {"revision": SITE.revision, "weights": SITE.weights, "acknowledgements": acknowledgements}
    )


def uploads(request: HttpRequest) -> HttpResponse:
    metadata = dict(part.split(" ") for part in request.headers["Upload-Metadata"].split(","))
    identity = f"u{len(SITE.uploads) + 1}"
    SITE.uploads[identity] = {
        "length": int(request.headers["Upload-Length"]),
        "metadata": {name: b64decode(value).decode() for name, value in metadata.items()},
        "data": b"",
    }
    return HttpResponse(status=201, headers={"Location": f"/api/v1/uploads/{identity}/"})


def upload(request: HttpRequest, identity: str) -> HttpResponse:
    kept = SITE.uploads.get(identity)
    if kept is None:
        return problem(404, "There is no such upload.")
    if request.method == "DELETE":
        del SITE.uploads[identity]
        return HttpResponse(status=204)
    if request.method == "PATCH":
        if SITE.upload_failures:
            return problem(
                SITE.upload_failures.pop(0), "The upload was refused.", "Choose another file."
            )
        if int(request.headers["Upload-Offset"]) != len(kept["data"]):
            return problem(409, "The offset is not the present one.")
        kept["data"] += request.read()
    return HttpResponse(status=204, headers={"Upload-Offset": str(len(kept["data"]))})


def events(request: HttpRequest) -> StreamingHttpResponse:
    mine: queue.Queue[str | None] = queue.Queue()
    SITE.streams.append(mine)

    def stream() -> Iterator[str]:
        yield ": hello\n\n"
        while (event := mine.get(timeout=60)) is not None:
            yield f"data: {event}\n\n"

    return StreamingHttpResponse(stream(), content_type="text/event-stream")


def fragment(request: HttpRequest) -> HttpResponse:
    SITE.refreshed += 1
    return HttpResponse(f"<span id='refreshed'>refreshed {SITE.refreshed}</span>")


def post(request: HttpRequest) -> HttpResponse:
    SITE.posts.append(dict(request.POST.items()))
    reason = request.POST.get("reason", "")
    if reason == "refuse":
        return problem(409, "Version 3 is not ready.", "Wait until it is loaded.")
    if reason == "break":
        return problem(503, "The gateway does not answer.", "Try again in a few seconds.")
    return HttpResponse(
        status=204,
        headers={"HX-Trigger": json.dumps({"toast": {"text": "Rolled back", "tone": "ok"}})},
    )


def search(request: HttpRequest) -> HttpResponse:
    items = [
        {"title": "fraud_detector", "detail": "model", "url": "/?found=model", "icon": "models"},
        {
            "title": "production/fraud_detector",
            "detail": "endpoint",
            "url": "/?found=endpoint",
            "icon": "endpoints",
        },
    ]
    context = {"query": request.GET.get("q", ""), "groups": [{"label": "Found", "items": items}]}
    return render(request, "components/search_results.html", context)


def plain(request: HttpRequest, name: str) -> HttpResponse:
    return render(request, f"errors/{name}.html", {"status": 409}, status=200)


def nothing(request: HttpRequest) -> HttpResponse:
    return HttpResponse("")


def page(route: str, view: Callable[..., HttpResponseBase], name: str | None = None) -> URLPattern:
    """This site has no sign-in."""
    return path(route, login_not_required(view), name=name)


def places(*names: str) -> list[URLPattern]:
    return [page(f"{name}/", nothing, name) for name in names]


urlpatterns = [
    page("", gallery, "home"),
    page("search/", search, "search"),
    page("fragment/", fragment),
    page("post/", post),
    page("errors/<name>/", plain),
    path("i18n/", include("django.conf.urls.i18n")),
    path(
        "",
        include(
            (
                places(
                    "error-help-list",
                    "job-list",
                    "audit-list",
                    "settings",
                    "sign-in",
                    "sign-out",
                    "keys",
                ),
                "console",
            )
        ),
    ),
    path("", include((places("model-list"), "models_registry"))),
    path(
        "",
        include(
            (
                places(
                    "endpoint-list",
                    "rollout-list",
                    "incident-list",
                    "alert-list",
                    "node-list",
                    "sla-list",
                ),
                "deployments",
            )
        ),
    ),
    page("api/v1/charts/<name>/", chart),
    page("api/v1/endpoints/production/fraud_detector/split/", split),
    page("api/v1/uploads/", uploads),
    page("api/v1/uploads/<identity>/", upload),
    page("api/v1/events/", events),
]
