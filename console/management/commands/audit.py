"""`manage.py audit`: verify, sign, export and retire the audit trail at a shell of the server."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.utils import timezone

from console.actors import Actor
from console.errors import CovenantError
from console.rules.audit_lines import FileReport, verify_lines
from console.selectors.audit import AuditFilter
from console.services import audit
from console.services.audit_checkpoints import trusted_keys
from console.services.audit_checks import (
    ChainReport,
    checkpoint_now,
    record_outcome,
    verify_chain,
)
from console.services.audit_exports import FORMATS, export
from console.services.audit_retention import retain


class Command(BaseCommand):
    """Exit code 1 when the chain, or a file of it, does not hold."""

    help = "Verify, sign, export and retire the audit trail; see docs/audit.md."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        verify = acts.add_parser("verify", help="Check the chain, or a file of it.")
        verify.add_argument("file", nargs="?", type=Path, help="A JSONL export or archive.")
        verify.add_argument(
            "--since-checkpoint", action="store_true", help="Only what came after the last one."
        )
        acts.add_parser("checkpoint", help="Sign how the chain stands now.")
        out = acts.add_parser("export", help="Write the trail to a file (- for standard output).")
        out.add_argument("file")
        out.add_argument("--as", dest="form", choices=FORMATS, default="jsonl")
        out.add_argument("--gz", action="store_true")
        out.add_argument("--bom", action="store_true")
        for name in ("actor", "action", "subject"):
            out.add_argument(f"--{name}", default="")
        keep = acts.add_parser("retain", help="Archive and drop months that are too old.")
        keep.add_argument(
            "--months", type=int, default=settings.AUDIT_RETENTION_MONTHS, help="How many to keep."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['act']}")(options)
        except CovenantError as error:
            raise CommandError(f"{error.message} {error.hint}".strip()) from error

    def _verify(self, options: dict[str, Any]) -> None:
        if options["file"]:
            self._verify_file(options["file"])
            return
        report = verify_chain(full=not options["since_checkpoint"], progress=self._progress)
        record_outcome(report, actor=_actor())
        self.stdout.write(
            f"{report.checked} entries behind #{report.after} checked in {report.seconds:.1f} s, "
            f"against {report.checkpoints} signed checkpoints."
        )
        self._judge(report)

    def _verify_file(self, path: Path) -> None:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            report = verify_lines(lines, trusted_keys())
        self.stdout.write(
            f"{report.entries} entries, #{report.first} to #{report.last}, "
            f"{report.checkpoints} signed checkpoints."
        )
        self._judge(report)

    def _judge(self, report: ChainReport | FileReport) -> None:
        if report.ok:
            self.stdout.write("The chain holds.")
            return
        raise CommandError(
            "The chain does not hold:\n"
            + "\n".join(
                f"  #{fault.sequence}{f' to #{fault.last}' if fault.last > fault.sequence else ''} "
                f"{fault.kind}: {fault.detail}"
                for fault in report.faults
            )
        )

    def _checkpoint(self, options: dict[str, Any]) -> None:
        made = checkpoint_now(actor=_actor())
        self.stdout.write(
            f"Signed at #{made.sequence} by {made.keyid[:16]}…."
            if made
            else "Nothing was written since the last checkpoint."
        )

    def _export(self, options: dict[str, Any]) -> None:
        wanted = AuditFilter(**{name: options[name] for name in ("actor", "action", "subject")})
        file = export(
            wanted=wanted,
            form=options["form"],
            gz=options["gz"],
            bom=options["bom"],
            actor=_actor(),
        )
        with transaction.atomic():
            audit.record(
                actor=_actor(),
                action="audit.export",
                subject="audit trail",
                after={"file": options["file"], "filters": wanted.words()},
            )
        if options["file"] == "-":
            sys.stdout.buffer.writelines(file.chunks)
            return
        with Path(options["file"]).open("wb") as target:
            target.writelines(file.chunks)
        self.stdout.write(f"Written to {options['file']}.")

    def _retain(self, options: dict[str, Any]) -> None:
        if options["months"] <= 0:
            raise CommandError(
                "All months are kept: say --months, or set COVENANT_AUDIT_RETENTION_MONTHS."
            )
        done = retain(keep=options["months"], actor=_actor(), now=timezone.now())
        for month, path in done:
            self.stdout.write(f"{month}: {f'in {path}' if path else 'was empty'}; dropped.")
        if not done:
            self.stdout.write(f"No month is older than {options['months']} months.")

    def _progress(self, done: int, total: int) -> None:
        if self.stderr.isatty():
            self.stderr.write(f"\r{done} of {total}", ending="")


def _actor() -> Actor:
    """Whoever holds a shell of the server acts as the installation."""
    return Actor.system("command")
