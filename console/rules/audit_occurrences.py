"""What the doors put on record by themselves: denials and exports, and how they are summed up."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta

SUMMED_OVER = timedelta(minutes=1)
# More kinds of occurrences than this within a minute are nobody's mistake: they share one row.
MOST_AT_ONCE = 2_000

ACCESS_DENIED = "access.denied"
TOKEN_REFUSED = "token.refused"  # noqa: S105 - the name of an action
FORM_REFUSED = "form.refused"
SIGNATURE_REFUSED = "signature.refused"
SIGN_IN_FAILED = "sign_in.failed"
DENIALS = (ACCESS_DENIED, FORM_REFUSED, SIGN_IN_FAILED, SIGNATURE_REFUSED, TOKEN_REFUSED)

# The service that refuses a sign-in records it, with the name that was tried.
_RECORDED_ELSEWHERE = frozenset({"wrong_code", "wrong_credentials"})
_OF_SIGNATURES = frozenset(
    {
        "invalid_envelope",
        "key_doubted",
        "key_expired",
        "key_not_yours",
        "key_revoked",
        "key_unknown",
        "one_signature_expected",
        "passkey_counter",
        "passkey_not_verified",
        "passkey_other_challenge",
        "passkey_other_origin",
        "passkey_other_purpose",
        "passkey_other_site",
        "payload_mismatch",
        "payload_type_mismatch",
        "signature_by_other_key",
        "signature_invalid",
        "signature_kind",
        "two_signatures_expected",
    }
)
_OF_TOKENS = frozenset({"bad_token", "not_authenticated"})
_OF_WORKLOADS = frozenset({"workload_ambiguous", "workload_refused", "workload_replayed"})

# Downloads by the name of their address; what is not named here is a `file.export`.
EXPORTS = {
    "api:audit-export": "audit.export",
    "api:contract-bundle": "contract.export",
    "api:endpoint-sla-csv": "sla.export",
    "api:endpoint-slow-csv": "access_log.export",
    "api:endpoint-sla-pdf": "sla.export",
    "api:sla-csv": "sla.export",
    "api:sla-pdf": "sla.export",
    "api:gateway-export": "gateway.export",
    "api:key-export": "key.export",
    "api:load-test-html": "load_test.export",
    "api:release-bundle": "release.export",
    "api:release-bom": "release.export",
    "api:version-config": "artifact.export",
    "api:version-file": "artifact.export",
    "console:audit-export": "audit.export",
    "deployments:gateway-export": "gateway.export",
    "deployments:sla-pdf": "sla.export",
    "deployments:sla-portfolio-pdf": "sla.export",
}
ANY_EXPORT = "file.export"
# Made by a service that records what it put into them.
RECORDED_BY_SERVICE = {
    "api:dossier-pdf": "dossier.export",
    "deployments:dossier-pdf": "dossier.export",
    "deployments:shared-sla-pdf": "sla.share_open",
}
# And bytes that a person is about to sign: read on the way to an entry of their own.
NO_EXPORTS = frozenset({"api:contract-payload", "api:release-payload", *RECORDED_BY_SERVICE})

_MODEL_PATH = re.compile(r"^(?:/api/v1)?/(?:models|panels/[-a-z]+)/([a-z][a-z0-9_]{1,62})(?:/|$)")
_ENDPOINT_PATH = re.compile(
    r"^(?:/api/v1)?/(?:endpoints|sla)/([-\w]+)/([a-z][a-z0-9_]{1,62})(?:/|$)"
)


def denial_action(*, status: int, code: str, has_token: bool) -> str:
    """The action that a refusal is recorded as; "" for one that is no denial."""
    if code in _RECORDED_ELSEWHERE:
        return ""
    if code == "csrf_failed":
        return FORM_REFUSED
    if code in _OF_SIGNATURES and 400 <= status < 500:
        return SIGNATURE_REFUSED
    if code in _OF_WORKLOADS:
        return TOKEN_REFUSED
    if status == 401:
        return TOKEN_REFUSED if has_token and code in _OF_TOKENS else ""
    return ACCESS_DENIED if status == 403 else ""


def subject_of(path: str) -> str:
    """What a path is about, in the words of other entries: a model, an endpoint, or itself."""
    if found := _MODEL_PATH.match(path):
        return f"model {found[1]}"
    if found := _ENDPOINT_PATH.match(path):
        return f"{found[1]}/{found[2]}"
    return path[:200]


def occurrence_key(*parts: str) -> str:
    """One name for all that is summed up together."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
