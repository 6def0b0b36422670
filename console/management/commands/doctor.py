"""`manage.py doctor`: what Covenant depends on, what is wrong with it and how to mend it."""

from __future__ import annotations

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from console.stack import doctor


class Command(BaseCommand):
    """Exit code 1 when there is a fault."""

    help = "Check each thing that Covenant depends on, and say how to mend it."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        findings = doctor.examine(settings.CONFIG)
        self.stdout.write("\n".join(doctor.lines(findings)))
        if any(finding.state == "fault" for finding in findings):
            sys.exit(1)
