"""The web process."""

from __future__ import annotations

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
django.setup(set_prefix=False)

from console.streaming import StreamingASGIHandler  # noqa: E402 - needs the settings from above

application = StreamingASGIHandler()
