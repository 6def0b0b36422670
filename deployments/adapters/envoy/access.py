"""Who may call, in Envoy's words: filters that stand by, and the routes that turn them on.

Every filter is off unless a route says otherwise, so an endpoint without a policy runs none of
them. What changes often travels where it disturbs nobody: callers' keys with the route table,
callers and their keys, token issuers and rate limits, as filter configurations of their own (ECDS),
so that no connection is drained, and no bucket is filled anew because some split moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deployments.rules.access.caller_directory import CallerDirectory, Issuer
from deployments.rules.access.rules import CALLER_HEADER, AccessRules, RateLimit

JSON = dict[str, Any]

NETWORKS_FILTER = "covenant.networks"
ISSUER_HEADER = "x-covenant-issuer"

_TYPE = "type.googleapis.com/envoy"
_HTTP = f"{_TYPE}.extensions.filters.http"
_SCRIPT = Path(__file__).with_name("access.lua").read_text(encoding="utf-8")
_UNBOUNDED = 4_294_967_295
_MOST_BUCKETS = 10_000
_HOW = {
    (True, False): "Send an API key as x-api-key.",
    (False, True): "Send a token as Authorization: Bearer.",
    (True, True): "Send an API key as x-api-key, or a token as Authorization: Bearer.",
}


def tokens_name(environment: str) -> str:
    """Name of the filter, and of its configuration, that checks an environment's tokens."""
    return f"covenant.tokens/{environment}"


def rates_name(environment: str) -> str:
    """Name of the filter, and of its configuration, that counts an environment's requests."""
    return f"covenant.rates/{environment}"


def callers_name(environment: str) -> str:
    """Name of the filter, and of its configuration, that tells an environment's callers."""
    return f"covenant.callers/{environment}"


def access_filters(environment: str) -> list[JSON]:
    """The filters of an environment's listener, in their order, all of them off."""
    networks = {"@type": f"{_HTTP}.rbac.v3.RBAC"}
    return [
        {"name": NETWORKS_FILTER, "disabled": True, "typed_config": networks},
        _discovered(tokens_name(environment), "jwt_authn.v3.JwtAuthentication"),
        _discovered(callers_name(environment), "lua.v3.Lua"),
        _discovered(rates_name(environment), "local_ratelimit.v3.LocalRateLimit"),
    ]


def header_guard() -> list[JSON]:
    """Takes away, before any filter or route looks, what only the gateway may say of a caller."""
    return [
        {
            "name": "envoy.http.early_header_mutation.header_mutation",
            "typed_config": {
                "@type": f"{_TYPE}.extensions.http.early_header_mutation.header_mutation.v3"
                ".HeaderMutation",
                "mutations": [{"remove": CALLER_HEADER}, {"remove": ISSUER_HEADER}],
            },
        }
    ]


def route_filters(
    environment: str, model: str, rules: AccessRules, issuers: tuple[str, ...]
) -> JSON:
    """What a route of an endpoint turns on; `issuers` are the `iss` of those that it takes."""
    found: JSON = {}
    turned_on = {"@type": f"{_TYPE}.config.route.v3.FilterConfig", "config": {}}
    if rules.has_networks:
        found[NETWORKS_FILTER] = {
            "@type": f"{_HTTP}.rbac.v3.RBACPerRoute",
            "rbac": {"rules": _networks(rules)},
        }
    if rules.issuers:
        found[tokens_name(environment)] = turned_on
    if rules.identifies:
        found[callers_name(environment)] = {
            "@type": f"{_HTTP}.lua.v3.LuaPerRoute",
            "filter_context": _context(model, rules, issuers),
        }
    if rules.has_rates:
        found[rates_name(environment)] = turned_on
    return found


def retry_after_s(rules: AccessRules) -> int:
    """Whole seconds after which it is worth asking again, said with each 429."""
    return max((one.wait_s for one in (rules.per_caller, rules.total) if one), default=1)


def callers_config(
    environment: str,
    directory: CallerDirectory,
    lists: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...],
) -> JSON:
    """The TypedExtensionConfig that tells callers; `lists` are (model, allowed, denied)."""
    tables = {
        "KEYS": _lua_table((digest, _lua_text(caller)) for digest, caller in directory.keys),
        "BLOCKED": _lua_set(directory.blocked),
        "ALLOWED": _lua_table((model, _lua_set(allowed)) for model, allowed, _ in lists if allowed),
        "DENIED": _lua_table((model, _lua_set(denied)) for model, _, denied in lists if denied),
    }
    before = "".join(f"local {name} = {table}\n" for name, table in tables.items())
    return {
        "name": callers_name(environment),
        "typed_config": {
            "@type": f"{_HTTP}.lua.v3.Lua",
            "default_source_code": {"inline_string": before + _SCRIPT},
        },
    }


def tokens_config(environment: str, issuers: tuple[Issuer, ...]) -> JSON:
    """The TypedExtensionConfig that checks tokens; it refuses none by itself, the script does."""
    providers = {one.name: _provider(one) for one in issuers}
    config: JSON = {
        "@type": f"{_HTTP}.jwt_authn.v3.JwtAuthentication",
        "providers": providers,
    }
    if providers:
        tried: list[JSON] = [{"provider_name": name} for name in providers]
        requires = {"requires_any": {"requirements": [*tried, {"allow_missing_or_failed": {}}]}}
        config["rules"] = [{"match": {"prefix": "/"}, "requires": requires}]
    return {"name": tokens_name(environment), "typed_config": config}


def rates_config(
    environment: str, rates: tuple[tuple[str, RateLimit | None, RateLimit | None], ...]
) -> JSON:
    """The TypedExtensionConfig that counts; `rates` are (model, per caller, total)."""
    whole = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}
    descriptors = [
        descriptor
        for model, per_caller, total in rates
        for descriptor in _descriptors(model, per_caller, total)
    ]
    model_entry = {
        "metadata": {
            "descriptor_key": "model",
            "metadata_key": {"key": "covenant", "path": [{"key": "model"}]},
            "source": "ROUTE_ENTRY",
        }
    }
    named = {"request_headers": {"header_name": CALLER_HEADER, "descriptor_key": "caller"}}
    nameless = {
        "header_value_match": {
            "descriptor_key": "nameless",
            "descriptor_value": "true",
            "expect_match": False,
            "headers": [{"name": CALLER_HEADER, "present_match": True}],
        }
    }
    config = {
        "@type": f"{_HTTP}.local_ratelimit.v3.LocalRateLimit",
        "stat_prefix": f"rates_{environment}",
        # What no bucket of a model is for is not counted.
        "token_bucket": _bucket(RateLimit(_UNBOUNDED, 1000, _UNBOUNDED)),
        "always_consume_default_token_bucket": False,
        "filter_enabled": whole,
        "filter_enforced": whole,
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        "max_dynamic_descriptors": _MOST_BUCKETS,
        "descriptors": descriptors,
        "rate_limits": [
            {"actions": [model_entry, named]},
            {"actions": [model_entry, nameless, {"remote_address": {}}]},
            {"actions": [model_entry]},
        ],
    }
    return {"name": rates_name(environment), "typed_config": config}


def _lua_table(items: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join(f"[{_lua_text(name)}]={value}" for name, value in items) + "}"


def _lua_set(names: Iterable[str]) -> str:
    return _lua_table((name, "true") for name in names)


def _lua_text(text: str) -> str:
    """A string of Lua: whatever is no letter, digit or harmless mark is written by its number."""
    plain = "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\{byte:03d}"
        for byte in text.encode()
    )
    return f'"{plain}"'


def _discovered(name: str, config: str) -> JSON:
    return {
        "name": name,
        "disabled": True,
        "config_discovery": {
            "config_source": {"ads": {}, "resource_api_version": "V3"},
            "type_urls": [f"{_HTTP}.{config}"],
        },
    }


def _context(model: str, rules: AccessRules, issuers: tuple[str, ...]) -> JSON:
    """Short, since Envoy copies it for each request; the lists stand in the script."""
    context: JSON = {"model": model, "how": _HOW[(rules.api_key, bool(rules.issuers))]}
    # An allow list asks for a name, too: who has none is not on it.
    context |= {"required": True} if rules.required or rules.allow_callers else {}
    context |= {"key": True} if rules.api_key else {}
    context |= {"token": True} if rules.issuers else {}
    context |= {"allow": True} if rules.allow_callers else {}
    return context | {f"i:{issuer}": True for issuer in issuers}


def _networks(rules: AccessRules) -> JSON:
    """Denied networks win; without allowed ones, every other is."""
    within: list[JSON] = []
    if rules.allow_networks:
        within.append({"or_ids": {"ids": [_remote(one) for one in rules.allow_networks]}})
    if rules.deny_networks:
        outside = {"or_ids": {"ids": [_remote(one) for one in rules.deny_networks]}}
        within.append({"not_id": outside})
    policy = {"permissions": [{"any": True}], "principals": [{"and_ids": {"ids": within}}]}
    return {"action": "ALLOW", "policies": {"networks": policy}}


def _remote(network: str) -> JSON:
    address, _, length = network.partition("/")
    return {"remote_ip": {"address_prefix": address, "prefix_len": int(length)}}


def _provider(issuer: Issuer) -> JSON:
    provider: JSON = {
        "issuer": issuer.issuer,
        # Not from the query, which Envoy takes by default: addresses are logged everywhere.
        "from_headers": [{"name": "authorization", "value_prefix": "Bearer "}],
        "local_jwks": {"inline_string": issuer.jwks},
        "failed_status_in_metadata": "failed",
        "clock_skew_seconds": 30,
        "require_expiration": True,
        "jwt_cache_config": {"jwt_cache_size": 1000},
        "claim_to_headers": [
            {"header_name": CALLER_HEADER, "claim_name": issuer.caller_claim},
            {"header_name": ISSUER_HEADER, "claim_name": "iss"},
        ],
    }
    if issuer.audiences:
        provider["audiences"] = list(issuer.audiences)
    return provider


def _descriptors(model: str, per_caller: RateLimit | None, total: RateLimit | None) -> list[JSON]:
    entry = {"key": "model", "value": model}
    found: list[JSON] = []
    if per_caller:
        bucket = _bucket(per_caller)
        nameless = [{"key": "nameless", "value": "true"}, {"key": "remote_address"}]
        # An entry without a value is a bucket for each value that comes.
        found.append({"entries": [entry, {"key": "caller"}], "token_bucket": bucket})
        found.append({"entries": [entry, *nameless], "token_bucket": bucket})
    if total:
        found.append({"entries": [entry], "token_bucket": _bucket(total)})
    return found


def _bucket(limit: RateLimit) -> JSON:
    return {
        "max_tokens": limit.burst,
        "tokens_per_fill": limit.requests,
        "fill_interval": f"{limit.per_ms / 1000:.3f}s",
    }
