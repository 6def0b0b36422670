"""The product's web application with a short time between looks at who still may listen."""

from __future__ import annotations

from console.asgi import application

# isort: split
# Importable now that the one above has set Django up.
from console.api import events
from tests.console import worker_app

events.PING_SECONDS = 0.5
events.RECHECK_SECONDS = 1.0

__all__ = ["application", "worker_app"]
