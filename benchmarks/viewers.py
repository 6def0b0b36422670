"""Two hundred people watch one page: how late an event reaches them, and what pages cost meanwhile.

`python -m benchmarks.viewers [VIEWERS] [SECONDS]` after `make demo`: one web process, 127.0.0.1
only. Each viewer holds the stream of events that an endpoint's page holds. While they watch,
callers call the endpoint, so that its numbers come each second, and pages are opened one after
another. Said are the ages of the events where they arrive, the pages' times with and without
viewers, and the web process' memory.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence

import httpx
import psutil

from benchmarks.demo_stack import CONFIG, ENVIRONMENT, GATEWAY, MODEL, quantiles, report, token_of
from deployments.demo.people import passwords
from deployments.demo.traffic import Caller

TOPIC = f"endpoint:{ENVIRONMENT}/{MODEL}"
PAGES = (
    "/",
    "/models/",
    "/endpoints/",
    f"/endpoints/{ENVIRONMENT}/{MODEL}/",
    f"/endpoints/{ENVIRONMENT}/{MODEL}/causes/",
    "/sla/",
    f"/sla/{ENVIRONMENT}/{MODEL}/",
    "/alerts/",
    "/nodes/local/",
)
ROUNDS = 10
RATE = 40.0


def main(viewers: int = 200, seconds: float = 20.0) -> None:
    with Caller(GATEWAY, MODEL, rate=RATE, limit_seconds=seconds + 120):
        alone = _pages()
        ages, events, while_watched = asyncio.run(_watch(viewers, seconds))
    report(
        "viewers",
        viewers=viewers,
        events=events,
        age_ms=quantiles(ages),
        pages_alone_ms=alone,
        pages_watched_ms=while_watched,
        web_mib=_web_memory(),
    )


def _pages() -> dict[str, float]:
    """p95 of each page's time in ms, opened in turn by a person who is signed in."""
    taken: dict[str, list[float]] = {page: [] for page in PAGES}
    with httpx.Client(base_url=CONFIG.base_url, timeout=30, follow_redirects=True) as client:
        found = client.get("/")
        token = client.cookies["csrftoken"]
        client.post(
            found.url.path,
            data={
                "username": "sam",
                "password": passwords(CONFIG.home)["sam"],
                "csrfmiddlewaretoken": token,
            },
            headers={"Referer": str(found.url)},
        ).raise_for_status()
        for _round in range(ROUNDS):
            for page in PAGES:
                started = time.perf_counter()
                client.get(page).raise_for_status()
                taken[page].append(1000 * (time.perf_counter() - started))
    return {page: quantiles(times)["p95"] for page, times in taken.items()}


async def _watch(viewers: int, seconds: float) -> tuple[list[float], int, dict[str, float]]:
    ages: list[float] = []
    headers = {"Authorization": f"Token {token_of('sam')}"}
    limits = httpx.Limits(max_connections=viewers + 10)
    async with httpx.AsyncClient(base_url=CONFIG.base_url, limits=limits, timeout=60) as client:
        stop = asyncio.Event()
        watching = [asyncio.create_task(_one(client, headers, ages, stop)) for _ in range(viewers)]
        await asyncio.sleep(3)
        ages.clear()
        pages = await asyncio.to_thread(_pages)
        await asyncio.sleep(seconds)
        stop.set()
        for task in watching:
            task.cancel()
        ended: Sequence[object] = await asyncio.gather(*watching, return_exceptions=True)
        broken = [one for one in ended if isinstance(one, Exception)]
        if broken:
            raise broken[0]
    return ages, len(ages), pages


async def _one(
    client: httpx.AsyncClient, headers: dict[str, str], ages: list[float], stop: asyncio.Event
) -> None:
    """Hold a stream; the numbers in it say when they were measured."""
    async with client.stream(
        "GET", "/api/v1/events/", params={"topics": TOPIC}, headers=headers
    ) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if stop.is_set():
                return
            if line.startswith("data:"):
                data = json.loads(line.removeprefix("data:"))
                numbers = data.get("data") or data
                if isinstance(numbers, dict) and "at" in numbers:
                    ages.append(1000 * (time.time() - float(numbers["at"])))


def _web_memory() -> float:
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if "uvicorn" in line and str(CONFIG.ports.web) in line:
            return round(process.memory_info().rss / 2**20, 1)
    return 0.0


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
