"""The demo's last steps: what moved first, every request counted, and the month on paper."""

from __future__ import annotations

import time

from deployments.cli.client import Client, CliError
from deployments.demo.traffic import Caller

CALLS = 500
RATE = 250.0
LONGEST_S = 30.0
QUIET_S = 7.0
"""Counts are booked every five seconds: what callers did before must be in them."""


def first_mover(client: Client, endpoint: str) -> str:
    """What the root-cause board says of the failure just now."""
    deadline = time.monotonic() + LONGEST_S
    # A step of five seconds is on the board once it is over.
    found = client.get(f"/endpoints/{endpoint}/causes/", window="15m")
    while not any(one["signal"] == "errors" for one in found["movers"]):
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
        found = client.get(f"/endpoints/{endpoint}/causes/", window="15m")
    meanings = [one["text"] for one in found["findings"]]
    summary: str = found["summary"][0]
    return f"{summary} → {meanings[0]}" if meanings else summary


def counted(client: Client, *, gateway: str, endpoint: str) -> str:
    """Send calls, and hold their number against the promise's own count."""
    before = _settled(client, endpoint)
    with Caller(gateway, endpoint.partition("/")[2], rate=RATE) as caller:
        deadline = time.monotonic() + LONGEST_S
        while len(caller.tally.answers) < CALLS and time.monotonic() < deadline:
            time.sleep(0.02)
    sent = len(caller.tally.answers)
    deadline = time.monotonic() + LONGEST_S
    while (after := _requests(client, endpoint)) - before != sent:
        if time.monotonic() > deadline:
            raise CliError(f"{sent} calls were sent, and {after - before} were counted.")
        time.sleep(0.2)
    return f"{sent} calls sent, {after - before} counted in the promise: none lost, none twice"


def on_paper(client: Client, endpoint: str) -> str:
    """The month as the business owner reads it, and as a PDF."""
    month = client.get(f"/endpoints/{endpoint}/sla/")
    said = ", ".join(
        f"{one['name']} {one['attained']:.2f} % of {one['target']:g} %"
        for one in month["objectives"]
        if one["attained"] is not None
    )
    pdf = client.content(f"/endpoints/{endpoint}/sla.pdf")
    if not pdf.startswith(b"%PDF"):
        raise CliError("The month is no PDF.")
    return f"{month['state']}: {said}; PDF of {len(pdf) / 1024:.0f} KiB"


def _settled(client: Client, endpoint: str) -> int:
    """The count once it has stood still for longer than it takes to book."""
    deadline = time.monotonic() + LONGEST_S
    count, since = _requests(client, endpoint), time.monotonic()
    while time.monotonic() - since < QUIET_S:
        if time.monotonic() > deadline:
            raise CliError("Others call the endpoint, too: its requests cannot be told apart.")
        time.sleep(0.2)
        now = _requests(client, endpoint)
        if now != count:
            count, since = now, time.monotonic()
    return count


def _requests(client: Client, endpoint: str) -> int:
    found: int = client.get(f"/endpoints/{endpoint}/sla/")["requests"]
    return found
