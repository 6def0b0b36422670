"""The access policy's rule: what it takes, what it refuses and where, its one stored form."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.errors import FieldError, Invalid
from deployments.rules.access.policies import parse_policy, policy_document, unknown_issuers
from deployments.rules.access.rules import AccessRules, RateLimit

VISIBLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)
CALLERS = st.lists(VISIBLE, max_size=6)
NETWORKS = st.lists(st.ip_addresses().map(str), max_size=6)
RATES = st.none() | st.fixed_dictionaries(
    {
        "requests": st.integers(1, 10_000),
        "per": st.sampled_from(["100ms", "1s", "90s", "5m", "24h"]),
    },
    optional={"burst": st.integers(1, 10_000)},
)
DOCUMENTS = st.fixed_dictionaries(
    {"authentication": st.just({"api_key": True, "issuers": ["acme"]})},
    optional={
        "allow": st.fixed_dictionaries({}, optional={"callers": CALLERS, "networks": NETWORKS}),
        "deny": st.fixed_dictionaries({"callers": CALLERS, "networks": NETWORKS}),
        "rate_limits": st.fixed_dictionaries({}, optional={"per_caller": RATES, "total": RATES}),
        "validation": st.sampled_from(["refuse", "off"]),
        "retries": st.fixed_dictionaries({"onto_baseline": st.booleans()}),
    },
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["authentication", "allow", "callers", "networks", "rate_limits", "x/~"]
            )
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def faults(document: object) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        parse_policy(document)
    assert refused.value.code == "invalid_access_policy"
    return {one.pointer: one.detail for one in refused.value.errors}


def test_an_empty_document_lets_everybody_in() -> None:
    assert parse_policy({}) == AccessRules()


@given(DOCUMENTS)
def test_what_is_stored_reads_back_as_the_same_rules(document: dict[str, Any]) -> None:
    rules = parse_policy(document)
    assert parse_policy(policy_document(rules)) == rules
    assert policy_document(parse_policy(policy_document(rules))) == policy_document(rules)


@given(ANYTHING)
def test_whatever_is_sent_gives_rules_or_faults_whose_places_are_in_the_document(
    document: object,
) -> None:
    found: tuple[FieldError, ...] = ()
    try:
        assert isinstance(parse_policy(document), AccessRules)
    except Invalid as refused:
        found = refused.errors
    assert all(one.detail for one in found)
    assert all(not one.pointer or one.pointer.startswith("/") for one in found)


@given(NETWORKS)
def test_networks_have_one_form_and_stand_once(networks: list[str]) -> None:
    rules = parse_policy({"allow": {"networks": [*networks, *networks]}})
    assert len(set(rules.allow_networks)) == len(rules.allow_networks)
    assert {ipaddress.ip_network(one) for one in rules.allow_networks} == {
        ipaddress.ip_network(one) for one in networks
    }


@given(st.integers(1, 10_000_000), st.integers(100, 86_400_000))
def test_after_the_wait_that_is_told_a_token_has_come(requests: int, per_ms: int) -> None:
    limit = RateLimit(requests, per_ms, 1)
    assert limit.wait_s >= 1
    assert limit.wait_s * 1000 * requests >= per_ms
    assert limit.wait_s == 1 or (limit.wait_s - 1) * 1000 * requests < per_ms


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ([], ""),
        ({"alow": {}}, "/alow"),
        ({"a/b~c": 1}, "/a~1b~0c"),
        ({"authentication": {"require": True}}, "/authentication/require"),
        ({"authentication": {"required": "yes"}}, "/authentication/required"),
        ({"authentication": {"required": True}}, "/authentication/required"),
        ({"authentication": {"issuers": "acme"}}, "/authentication/issuers"),
        ({"authentication": {"issuers": ["a b"]}}, "/authentication/issuers/0"),
        ({"allow": {"callers": ["billing"]}}, "/allow/callers"),
        ({"deny": {"callers": ["billing"]}}, "/deny/callers"),
        (
            {"authentication": {"api_key": True}, "deny": {"callers": ["ok", "zwei wörter"]}},
            "/deny/callers/1",
        ),
        ({"allow": {"networks": ["10.0.0.1/8"]}}, "/allow/networks/0"),
        ({"allow": {"networks": ["10.0.0.0/8", "nowhere"]}}, "/allow/networks/1"),
        ({"rate_limits": {"total": {"per": "1s"}}}, "/rate_limits/total/requests"),
        ({"rate_limits": {"total": {"requests": 0}}}, "/rate_limits/total/requests"),
        ({"rate_limits": {"total": {"requests": True}}}, "/rate_limits/total/requests"),
        ({"rate_limits": {"total": {"requests": 1, "per": "1d"}}}, "/rate_limits/total/per"),
        ({"rate_limits": {"total": {"requests": 1, "per": "99ms"}}}, "/rate_limits/total/per"),
        ({"limits": {"timeout_ms": 0}}, "/limits/timeout_ms"),
        ({"limits": {"max_body_bytes": 2**40}}, "/limits/max_body_bytes"),
        ({"validation": "warn"}, "/validation"),
        ({"retries": {"onto_baseline": 1}}, "/retries/onto_baseline"),
    ],
)
def test_each_fault_is_told_at_its_place(document: object, pointer: str) -> None:
    assert list(faults(document)) == [pointer]


def test_all_faults_are_told_at_once() -> None:
    found = faults({"allow": {"networks": ["x"]}, "limits": {"timeout_ms": "1"}, "no": 1})
    assert set(found) == {"/allow/networks/0", "/limits/timeout_ms", "/no"}


def test_a_network_with_host_bits_is_told_what_was_meant() -> None:
    assert "10.0.0.0/8" in faults({"deny": {"networks": ["10.1.2.3/8"]}})["/deny/networks/0"]


def test_an_issuer_that_the_environment_does_not_have_is_found() -> None:
    rules = parse_policy({"authentication": {"issuers": ["acme", "other"]}})
    (fault,) = unknown_issuers(rules, {"acme"})
    assert fault.pointer == "/authentication/issuers/1"


def test_a_burst_left_out_is_as_large_as_the_rate() -> None:
    rules = parse_policy({"rate_limits": {"per_caller": {"requests": 7}}})
    assert rules.per_caller == RateLimit(7, 1000, 7)
