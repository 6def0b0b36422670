"""Which files a listener's certificate lies in: set by those who register gateways."""

from __future__ import annotations

from pathlib import PurePosixPath

from django.db import transaction

from console.actors import Actor, require
from console.errors import FieldError, Invalid, NotFound
from console.services import audit
from deployments.models import GatewayListener
from deployments.services.gateways.certificate_watch import end_notices
from deployments.services.gateways.desired import wake_gateways


def set_certificate(
    *,
    gateway: str,
    environment: str,
    certificate_file: str,
    key_file: str,
    actor: Actor,
    reason: str = "",
) -> GatewayListener:
    """Have a listener speak TLS with the pair in these files, or plain HTTP when both are empty.

    The files lie on the machine of the gateway control, which reads them when they change; until
    it has, `certificate_not_after` is unknown. Raises Invalid, NotFound, NotAllowed.
    """
    require(actor, "gateway.register")
    _check_files(certificate_file, key_file)
    with transaction.atomic():
        listener = (
            GatewayListener.objects.select_for_update(of=("self",))
            .select_related("gateway", "environment")
            .filter(gateway__name=gateway, environment__name=environment)
            .first()
        )
        if listener is None:
            raise NotFound(f"The gateway {gateway} has no listener for {environment}.")
        before = _facts(listener)
        listener.certificate_file, listener.key_file = certificate_file, key_file
        if _facts(listener) == before:
            return listener
        listener.certificate_not_after = None
        scheme = "https" if certificate_file else "http"
        listener.public_url = f"{scheme}://{listener.public_url.partition('://')[2]}"
        listener.save()
        end_notices(listener)
        wake_gateways()
        audit.record(
            actor=actor,
            action="gateway.certificate",
            subject=f"gateway {gateway}",
            before=before,
            after=_facts(listener),
            reason=reason.strip(),
        )
    return listener


def _check_files(certificate_file: str, key_file: str) -> None:
    faults = []
    if bool(certificate_file) != bool(key_file):
        faults.append(FieldError("/key_file", "Give both files, or neither."))
    for name, path in (("certificate_file", certificate_file), ("key_file", key_file)):
        if path and (not PurePosixPath(path).is_absolute() or len(path) > 300):
            faults.append(FieldError(f"/{name}", "Give a whole path, from / on."))
    if faults:
        raise Invalid(
            f"The certificate's files cannot be used: {faults[0].detail}",
            code="invalid_certificate_files",
            errors=tuple(faults),
        )


def _facts(listener: GatewayListener) -> dict[str, str]:
    return {
        "environment": listener.environment.name,
        "certificate_file": listener.certificate_file,
        "key_file": listener.key_file,
    }
