"""Listeners in Envoy's words: one for each environment, an inner one for the gateway's answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deployments.adapters.envoy.access import access_filters, header_guard
from deployments.adapters.envoy.clusters import lua_filter
from deployments.adapters.envoy.observing import (
    answers_log,
    callers_log,
    without_callers_marks,
)
from deployments.adapters.envoy.requests import LARGEST_BODY, requests_script
from deployments.adapters.envoy.routes import (
    ANSWERS,
    ANSWERS_FILTER,
    JSON,
    METADATA,
    REQUESTS_FILTER,
    TYPE,
    table_name,
)
from deployments.adapters.envoy.secrets import tls_socket
from deployments.rules.access.rules import CALLER_HEADER
from deployments.rules.gateways.snapshots import Listener

_ANSWERS_SCRIPT = Path(__file__).with_name("answers.lua").read_text(encoding="utf-8")
LARGEST_HEADERS_KB = 8
_MANAGER = "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"


def listener_config(listener: Listener) -> JSON:
    """The Listener message of an environment, as JSON."""
    name = table_name(listener.environment)
    manager = _manager_filter(
        f"environment_{listener.environment}",
        name,
        [*access_filters(listener.environment), lua_filter(REQUESTS_FILTER, requests_script())],
        early_header_mutation_extensions=[*header_guard(), without_callers_marks()],
        always_set_request_id_in_response=True,
        request_id_extension={
            "typed_config": {
                "@type": f"{TYPE}.extensions.request_id.uuid.v3.UuidRequestIdConfig",
                # Otherwise Envoy writes a digit of its own into the caller's UUID.
                "pack_trace_reason": False,
            }
        },
        use_remote_address=True,
        # Nobody is internal: callers may not steer time-outs and retries by x-envoy-* headers.
        internal_address_config={
            "cidr_ranges": [{"address_prefix": "255.255.255.255", "prefix_len": 32}]
        },
        server_name="covenant",
        normalize_path=True,
        merge_slashes=True,
        path_with_escaped_slashes_action="REJECT_REQUEST",
        request_headers_timeout="10s",
        # Triton ends the connection at a header line above 8,190 bytes: to the gateway that is a
        # version's fault, and a caller could drive an endpoint down its rollback levels.
        max_request_headers_kb=LARGEST_HEADERS_KB,
        stream_idle_timeout="60s",
        common_http_protocol_options={"idle_timeout": "300s"},
        local_reply_config=_local_replies(),
        access_log=[
            _access_log(listener),
            callers_log(listener.environment),
            *([answers_log(listener.environment)] if listener.edge else []),
        ],
    )
    chain: JSON = {"filters": [manager]}
    if listener.tls:
        chain["transport_socket"] = tls_socket(listener.environment)
    return {
        "name": name,
        "address": {"socket_address": {"address": listener.address, "port_value": listener.port}},
        # A body is looked at as a whole before any model gets it; a larger one is refused.
        "per_connection_buffer_limit_bytes": LARGEST_BODY,
        "filter_chains": [chain],
    }


def answers_listener_config() -> JSON:
    """The Listener message of the inner listener, as JSON; only clusters of ours reach it."""
    answers = lua_filter(ANSWERS_FILTER, _ANSWERS_SCRIPT)
    return {
        "name": ANSWERS,
        "internal_listener": {},
        "per_connection_buffer_limit_bytes": LARGEST_BODY,
        "filter_chains": [{"filters": [_manager_filter("answers", ANSWERS, [answers])]}],
    }


def _manager_filter(prefix: str, table: str, filters: list[JSON], **options: Any) -> JSON:
    router = {
        "name": "envoy.filters.http.router",
        "typed_config": {
            "@type": f"{TYPE}.extensions.filters.http.router.v3.Router",
            "suppress_envoy_headers": True,
        },
    }
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": f"{TYPE}.{_MANAGER}",
            "stat_prefix": prefix,
            "rds": {
                "route_config_name": table,
                "config_source": {"ads": {}, "resource_api_version": "V3"},
            },
            "http_filters": [*filters, router],
            "preserve_external_request_id": True,
            **options,
        },
    }


def _local_replies() -> JSON:
    """What Envoy says when no model answered: problems, with the contract's code."""
    late = _reply(
        ["UT"],
        504,
        "timeout",
        "Model did not answer in time",
        "The time-out of the service contract passed.",
        "Try again; if it stays, tell the model's owners.",
    )
    full = _reply(
        ["UO"],
        503,
        "overloaded",
        "Too many requests at once",
        "The gateway's limit for this model is reached.",
        "Try again shortly, with fewer requests at once.",
    )
    down = _reply(
        ["UH", "UF", "NC", "NR", "UC", "UR", "LR", "LH", "URX"],
        503,
        f"%METADATA(ROUTE:{METADATA}:unavailable_code)%",
        "Model unavailable",
        "No instance of the model could answer.",
        "Try again shortly.",
    )
    return {"mappers": [late, full, down, _too_many(), _network_denied(), _too_large()]}


def _too_many() -> JSON:
    return _by_status(
        429,
        "rate_limited",
        "Too many requests",
        "The access policy's rate is used up.",
        "Send fewer requests; try again after the seconds in Retry-After.",
        {"retry-after": f"%METADATA(ROUTE:{METADATA}:rate_retry_after)%"},
    )


def _network_denied() -> JSON:
    reply = _by_status(
        403,
        "network_denied",
        "Not allowed",
        "Requests from this network are not taken here.",
        "Ask those who run the model to let this network in.",
        {},
    )
    # Whom another check refuses has a name by then, and was told why already.
    nameless = {"name": CALLER_HEADER, "present_match": True, "invert_match": True}
    both = [reply["filter"], {"header_filter": {"header": nameless}}]
    return {**reply, "filter": {"and_filter": {"filters": both}}}


def _by_status(status: int, code: str, title: str, detail: str, hint: str, headers: JSON) -> JSON:
    reply = _reply([], status, code, title, detail, hint)
    same = {"op": "EQ", "value": {"default_value": status, "runtime_key": "covenant.none"}}
    return {
        **reply,
        "filter": {"status_code_filter": {"comparison": same}},
        "headers_to_add": [
            {
                "header": {"key": key, "value": value},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
            for key, value in headers.items()
        ],
    }


def _too_large() -> JSON:
    most = LARGEST_BODY // 1024**2
    body = {
        "type": "about:blank",
        "title": "Body too large",
        "status": 413,
        "detail": f"A request has at most {most} MiB.",
        "code": "body_too_large",
        "hint": "Send fewer rows at once.",
        "error": f"A request has at most {most} MiB.",
        "request_id": "%REQ(X-REQUEST-ID)%",
    }
    size = {"op": "EQ", "value": {"default_value": 413, "runtime_key": "covenant.none"}}
    return {
        "filter": {"status_code_filter": {"comparison": size}},
        "body_format_override": {"content_type": "application/problem+json", "json_format": body},
    }


def _reply(flags: list[str], status: int, code: str, title: str, detail: str, hint: str) -> JSON:
    return {
        "filter": {"response_flag_filter": {"flags": flags}},
        "headers_to_add": [
            {
                "header": {"key": "retry-after", "value": "1"},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
        ],
        "body_format_override": {
            "content_type": "application/problem+json",
            "json_format": {
                "type": "about:blank",
                "title": title,
                "status": status,
                "detail": detail,
                "code": code,
                "hint": hint,
                # Where clients of the v2 protocol look.
                "error": detail,
                "request_id": "%REQ(X-REQUEST-ID)%",
            },
        },
    }


def _access_log(listener: Listener) -> JSON:
    return {
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": f"{TYPE}.extensions.access_loggers.file.v3.FileAccessLog",
            "path": listener.access_log,
            "log_format": {
                "json_format": {
                    "time": "%START_TIME%",
                    "environment": listener.environment,
                    "x_request_id": "%REQ(X-REQUEST-ID)%",
                    "model": f"%METADATA(ROUTE:{METADATA}:model)%",
                    "caller": "%REQ(X-COVENANT-CALLER)%",
                    "model_version": "%RESP(X-MODEL-VERSION)%",
                    "cluster": "%UPSTREAM_CLUSTER%",
                    "upstream": "%UPSTREAM_HOST%",
                    "method": "%REQ(:METHOD)%",
                    "path": "%REQ(:PATH)%",
                    "status": "%RESPONSE_CODE%",
                    "flags": "%RESPONSE_FLAGS%",
                    "duration_ms": "%DURATION%",
                    "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
                    "refused": f"%DYNAMIC_METADATA({REQUESTS_FILTER}:refused)%",
                    "bytes_received": "%BYTES_RECEIVED%",
                    "bytes_sent": "%BYTES_SENT%",
                    **_phases(),
                }
            },
        },
    }


def _phases() -> dict[str, str]:
    """Where a request's time goes, in microseconds; Envoy leaves out what did not happen.

    After a retry they tell of the last attempt, and `until_upstream_us` holds the earlier ones.
    """
    spans = {
        "receive_us": "DS_RX_BEG:DS_RX_END",
        "until_upstream_us": "DS_RX_BEG:US_TX_BEG",
        "send_us": "US_TX_BEG:US_TX_END",
        "model_us": "US_TX_END:US_RX_BEG",
        "answer_us": "US_RX_BEG:DS_TX_END",
    }
    return {name: f"%COMMON_DURATION({span}:us)%" for name, span in spans.items()}
