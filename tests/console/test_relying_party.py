"""Which sites can have passkeys, and what they are bound to."""

from __future__ import annotations

import pytest

from console.errors import Conflict
from console.rules.relying_party import relying_party, why_no_passkeys


@pytest.mark.parametrize(
    ("base_url", "rp_id", "origin"),
    [
        ("https://covenant.example.com", "covenant.example.com", "https://covenant.example.com"),
        (
            "https://Covenant.example.com:443/",
            "covenant.example.com",
            "https://covenant.example.com",
        ),
        (
            "https://console.example.com:8443",
            "console.example.com",
            "https://console.example.com:8443",
        ),
        ("http://localhost:8000", "localhost", "http://localhost:8000"),
    ],
)
def test_a_name_under_https_or_this_machine_is_a_relying_party(
    base_url: str, rp_id: str, origin: str
) -> None:
    found = relying_party(base_url)
    assert (found.id, found.origin) == (rp_id, origin)
    assert why_no_passkeys(base_url) == ""


@pytest.mark.parametrize(
    ("base_url", "said"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1 is none"),
        ("https://[::1]:8000", "::1 is none"),
        ("http://covenant.example.com", "not encrypted"),
        ("https://", "is none"),
    ],
)
def test_an_address_or_an_open_line_has_no_passkeys(base_url: str, said: str) -> None:
    with pytest.raises(Conflict) as refused:
        relying_party(base_url)
    assert refused.value.code == "passkeys_unavailable"
    assert said in refused.value.message
    assert "COVENANT_BASE_URL" in refused.value.hint
    assert why_no_passkeys(base_url) == refused.value.message
