"""Django's sessions in the database, with what a person wants to know of theirs beside them."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.utils import timezone

from console.models import Session
from console.rules.fresh_sign_ins import SIGNED_IN_AT

MEANS, ADDRESS, BROWSER = "means", "address", "browser"
LAST_SEEN_GRAIN = timedelta(minutes=1)


def handle_of(session_key: str) -> str:
    """The name of a session in addresses and in the audit trail; its key cannot be told from it."""
    return hashlib.sha256(session_key.encode()).hexdigest()[:16]


class SessionStore(DatabaseStore):
    """Writes the person into a column of their own, and notes to the minute when it was used."""

    @classmethod
    def get_model_class(cls) -> type[Session]:
        """The table of the sessions."""
        return Session

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        """The row of what the session holds now."""
        return _described(super().create_model_instance(_dated(data)), data)

    async def acreate_model_instance(self, data: dict[str, Any]) -> Session:
        """The row of what the session holds now."""
        return _described(await super().acreate_model_instance(_dated(data)), data)

    def load(self) -> dict[str, Any]:
        """What the session holds; that it was asked for is a sign of its person."""
        row: Session | None = self._get_session_from_db()  # type: ignore[attr-defined]
        if row is None:
            return {}
        if _is_due(row):
            Session.objects.filter(pk=row.pk).update(last_seen_at=timezone.now())
        return self.decode(row.session_data)

    async def aload(self) -> dict[str, Any]:
        """What the session holds; that it was asked for is a sign of its person."""
        row: Session | None = await self._aget_session_from_db()  # type: ignore[attr-defined]
        if row is None:
            return {}
        if _is_due(row):
            await Session.objects.filter(pk=row.pk).aupdate(last_seen_at=timezone.now())
        return self.decode(row.session_data)


def _dated(data: dict[str, Any]) -> dict[str, Any]:
    if SESSION_KEY in data:
        # Also when signed in by other ways than our doors, such as a test's client.
        data.setdefault(SIGNED_IN_AT, timezone.now().timestamp())
    return data


def _described(row: AbstractBaseSession, data: dict[str, Any]) -> Session:
    if not isinstance(row, Session):
        raise TypeError(f"sessions are kept as Session, not as {type(row)}")
    row.handle = handle_of(row.session_key)
    if SESSION_KEY in data:
        row.user_id = int(data[SESSION_KEY])
        row.means = str(data.get(MEANS, ""))[:40]
        row.address = str(data.get(ADDRESS, ""))[:64]
        row.browser = str(data.get(BROWSER, ""))[:200]
        row.signed_in_at = datetime.fromtimestamp(data[SIGNED_IN_AT], tz=UTC)
        row.last_seen_at = timezone.now()
    return row


def _is_due(row: Session) -> bool:
    return row.user_id is not None and (
        row.last_seen_at is None or timezone.now() - row.last_seen_at > LAST_SEEN_GRAIN
    )
