"""Mail by SMTP, through Django's own mail library."""

from __future__ import annotations

import smtplib
from collections.abc import Sequence
from dataclasses import dataclass

from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend

from console.env_values import EmailServer
from console.errors import Unavailable

SECONDS = 10


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A file that travels with a message; `kind` is its media type."""

    name: str
    kind: str
    data: bytes


def send_mail(
    server: EmailServer,
    *,
    to: Sequence[str],
    subject: str,
    text: str,
    enclosed: Sequence[Enclosed] = (),
    message_id: str = "",
) -> None:
    """Hand a plain message in. Raises Unavailable (`mail_not_sent`) with what the server said.

    `message_id` makes a message that is sent twice one for whoever reads it. Each answer of the
    server is waited for at most ten seconds: never within a transaction.
    """
    connection = EmailBackend(
        host=server.host,
        port=server.port,
        username=server.username,
        password=server.password,
        use_ssl=server.tls,
        use_tls=server.start_tls,
        timeout=SECONDS,
    )
    headers = {"Message-ID": f"<{message_id}@covenant>"} if message_id else {}
    message = EmailMessage(
        subject, text, server.sender, list(to), connection=connection, headers=headers
    )
    for one in enclosed:
        message.attach(one.name, one.data, one.kind)
    try:
        message.send()
    except (smtplib.SMTPException, OSError) as error:
        raise Unavailable(
            f"The mail server {server.host} did not take the message: {error}",
            code="mail_not_sent",
            hint="Check COVENANT_EMAIL_URL and COVENANT_EMAIL_FROM.",
        ) from error
