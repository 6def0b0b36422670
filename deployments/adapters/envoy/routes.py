"""Route tables of a snapshot in Envoy's words: who a request goes to, and what refuses it.

Routes only pick clusters; each cluster writes the path its Triton knows (see `resources`). So the
split, header rules, mirrors and retries all reach the right version.
"""

from __future__ import annotations

import json
from typing import Any

from deployments.adapters.envoy.access import retry_after_s, route_filters
from deployments.adapters.envoy.observing import experiment_headers, sample_policies
from deployments.adapters.envoy.requests import request_facts
from deployments.adapters.envoy.retries import asks_the_baseline, retries_of, retry_policy
from deployments.rules.fallback.fallbacks import FallbackAnswer
from deployments.rules.gateways.snapshots import EndpointRoutes

JSON = dict[str, Any]

TYPE = "type.googleapis.com/envoy"
ANSWERS = "covenant_answers"
"""Name of the listener inside Envoy that answers for models that may not, and of its routes."""
ANSWER_HEADER = "x-covenant-answer"
RULES_TIMEOUT_MS = 150
"""How long the edge may take to answer by rules before the fixed response is given."""
METADATA = "covenant"
ANSWERS_FILTER = "covenant.answers"
REQUESTS_FILTER = "covenant.requests"
VERSION_FILTER = "covenant.version"
OURS_ALONE = ["x-model-version", "x-covenant-fallback"]
"""Headers that callers may not bring: what they say is said by the gateway. (`ANSWER_HEADER` is not
among them, since a virtual host's removals come after its routes' additions; it is overwritten on
the only routes that lead to who reads it.)"""


def table_name(environment: str) -> str:
    """Name of an environment's listener and of its route table."""
    return f"environment/{environment}"


def table_frame(environment: str) -> JSON:
    """RouteConfiguration of one environment, yet without its endpoints' routes."""
    return {
        "name": table_name(environment),
        "virtual_hosts": [
            {
                "name": environment,
                "domains": ["*"],
                "request_headers_to_remove": OURS_ALONE,
                "retry_policy": retry_policy(),
            }
        ],
    }


def answers_frame() -> JSON:
    """RouteConfiguration of the inner listener, yet without any route."""
    return {"name": ANSWERS, "virtual_hosts": [{"name": ANSWERS, "domains": ["*"]}]}


def unknown_route(environment: str) -> JSON:
    """The last route of an environment: what no endpoint took is not known."""
    unknown = problem(
        404,
        "model_not_found",
        "Unknown model",
        f"No such model, version or operation is served in {environment}.",
        "Check the name in /v2/models/<model>/infer.",
    )
    return {"match": {"prefix": "/"}, **unknown}


def endpoint_routes(endpoint: EndpointRoutes) -> tuple[JSON, ...]:
    """Routes of one endpoint in the order in which Envoy tries them."""
    base = f"/v2/models/{endpoint.model}"
    if endpoint.answer:
        infers: list[JSON] = [
            {"path_separated_prefix": base},
            {"path": f"/v1/models/{endpoint.model}:predict"},
        ]
        paths = [{"path": base}, *infers]
        ruled = [{**match, "headers": [_method("POST")]} for match in infers if endpoint.rules]
        return (
            *_probe(endpoint),
            *({"match": match, **_metadata(endpoint), **_by_rules(endpoint)} for match in ruled),
            *({"match": match, **_metadata(endpoint), **_answered(endpoint)} for match in paths),
        )
    infer = {"path": f"{base}/infer", "headers": [_method("POST")]}
    split = _split(endpoint)
    return (
        *(
            _route(
                endpoint,
                {**infer, "headers": [_method("POST"), _exact(header, value)]},
                {"cluster": cluster},
            )
            for header, value, cluster in endpoint.header_rules
        ),
        {
            **_route(endpoint, infer, {**_split(endpoint, retried=True), **_mirror(endpoint)}),
            **experiment_headers(endpoint),
        },
        *(_route(endpoint, _get(path), split) for path in (base, f"{base}/ready")),
        *(
            _route(endpoint, match, {"cluster": cluster})
            for version, cluster in endpoint.pinned
            for match in _pins(f"{base}/versions/{version}")
        ),
        *(
            {"match": {"path": path}, **_metadata(endpoint), **_wrong_method(path)}
            for path in (f"{base}/infer", base, f"{base}/ready")
        ),
    )


def _probe(endpoint: EndpointRoutes) -> tuple[JSON, ...]:
    """The route that lets a share of inferences try the versions; chance picks the requests."""
    if not endpoint.probe:
        return ()
    match = {
        "path": f"/v2/models/{endpoint.model}/infer",
        "headers": [_method("POST")],
        "runtime_fraction": {
            "default_value": {"numerator": endpoint.probe, "denominator": "TEN_THOUSAND"}
        },
    }
    return (_route(endpoint, match, _split(endpoint)),)


def guarded(
    environment: str, endpoint: EndpointRoutes, issuers: tuple[tuple[str, str], ...]
) -> tuple[JSON, ...]:
    """`endpoint_routes`, each with the checks that the endpoint's access policy asks for.

    `issuers` are the environment's token issuers: name, and what their tokens say in `iss`.
    """
    routes = endpoint_routes(endpoint)
    taken = tuple(iss for name, iss in issuers if name in endpoint.access.issuers)
    checks = route_filters(environment, endpoint.model, endpoint.access, taken)
    if not checks:
        return routes
    field = "typed_per_filter_config"
    return tuple({**route, field: {**route.get(field, {}), **checks}} for route in routes)


def answer_routes(environment: str, endpoint: EndpointRoutes) -> tuple[JSON, ...]:
    """Routes of the inner listener for one endpoint: one for each answer it may need."""
    stem = f"{environment}/{endpoint.model}"
    opened = {"match": _answer_match(f"{stem}/open"), **_open(endpoint)}
    if endpoint.fallback is None:
        return (opened,)
    facts = {"fallback": _fallback(endpoint, endpoint.fallback)}
    fallback = {
        "match": _answer_match(f"{stem}/fallback"),
        "metadata": {"filter_metadata": {ANSWERS_FILTER: facts}},
        # Never sent: the filter answers before.
        "direct_response": {"status": 500},
    }
    return fallback, opened


def problem(
    status: int, code: str, title: str, detail: str, hint: str, headers: JSON | None = None
) -> JSON:
    """An RFC 9457 answer made by the gateway."""
    body = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
        "hint": hint,
        # Where clients of the v2 protocol look.
        "error": detail,
    }
    wanted = {"content-type": "application/problem+json", **(headers or {})}
    return {
        "direct_response": {"status": status, "body": {"inline_string": json.dumps(body)}},
        "response_headers_to_add": [
            {
                "header": {"key": key, "value": str(value)},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
            for key, value in wanted.items()
        ],
    }


def _open(endpoint: EndpointRoutes) -> JSON:
    return problem(
        503,
        endpoint.unavailable_code,
        "Model unavailable",
        f"The model {endpoint.model} takes no requests now.",
        f"Try again after {endpoint.retry_after_s} s.",
        {"retry-after": endpoint.retry_after_s},
    )


def _wrong_method(path: str) -> JSON:
    allowed = "POST" if path.endswith("/infer") else "GET"
    return problem(
        405,
        "method_not_allowed",
        "Method not allowed",
        f"{path} takes {allowed}.",
        f"Send {allowed}.",
        {"allow": allowed},
    )


def _route(endpoint: EndpointRoutes, match: JSON, action: JSON) -> JSON:
    return {
        "match": match,
        **_metadata(endpoint),
        "route": {
            **action,
            "timeout": f"{endpoint.timeout_ms / 1000:.3f}s",
            **retries_of(endpoint),
            "hash_policy": [{"header": {"header_name": endpoint.sticky_header}}],
            "cluster_not_found_response_code": "SERVICE_UNAVAILABLE",
        },
    }


def _answered(endpoint: EndpointRoutes) -> JSON:
    return {
        "route": {"cluster": endpoint.answer, "timeout": "5s"},
        # No model gets it, so it may look as it likes.
        "typed_per_filter_config": {
            REQUESTS_FILTER: {
                "@type": f"{TYPE}.extensions.filters.http.lua.v3.LuaPerRoute",
                "disabled": True,
            }
        },
        "request_headers_to_add": [
            {
                "header": {"key": ANSWER_HEADER, "value": endpoint.answer},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
        ],
    }


def _by_rules(endpoint: EndpointRoutes) -> JSON:
    """The edge is asked; where it has no answer, or none in time, the gateway's own is given."""
    answered = _answered(endpoint)
    retries = {
        "retry_on": "5xx,retriable-status-codes",
        "retriable_status_codes": [400, 404, 405, 413],
        "num_retries": 2,
        "per_try_timeout": f"{RULES_TIMEOUT_MS / 1000:.3f}s",
        "retry_back_off": {"base_interval": "0.001s", "max_interval": "0.002s"},
        # Who was tried is not tried again: after the edge comes the inner listener.
        "retry_priority": {
            "name": "envoy.retry_priorities.previous_priorities",
            "typed_config": {
                "@type": f"{TYPE}.extensions.retry.priority.previous_priorities.v3"
                ".PreviousPrioritiesConfig",
                "update_frequency": 1,
            },
        },
    }
    route = {**answered["route"], "cluster": endpoint.rules, "retry_policy": retries}
    return {**answered, "route": route}


def _split(endpoint: EndpointRoutes, *, retried: bool = False) -> JSON:
    onto_baseline = {name: asks for name, asks, _ in endpoint.retried if retried}
    clusters = [
        {
            "name": onto_baseline.get(name, name),
            "weight": weight,
            **(asks_the_baseline() if name in onto_baseline else {}),
        }
        for name, weight in endpoint.split
    ]
    return {"weighted_clusters": {"clusters": clusters, "use_hash_policy": True}}


def _mirror(endpoint: EndpointRoutes) -> JSON:
    policies = sample_policies(endpoint)
    if endpoint.mirror is not None:
        cluster, basis_points = endpoint.mirror
        share = {"numerator": basis_points, "denominator": "TEN_THOUSAND"}
        policies.insert(0, {"cluster": cluster, "runtime_fraction": {"default_value": share}})
    return {"request_mirror_policies": policies} if policies else {}


def _metadata(endpoint: EndpointRoutes) -> JSON:
    facts = {
        "model": endpoint.model,
        "unavailable_code": endpoint.unavailable_code,
        "retry_after": str(endpoint.retry_after_s),
        "rate_retry_after": str(retry_after_s(endpoint.access)),
    }
    known = {METADATA: facts, VERSION_FILTER: facts, REQUESTS_FILTER: request_facts(endpoint)}
    return {"metadata": {"filter_metadata": known}}


def _fallback(endpoint: EndpointRoutes, answer: FallbackAnswer) -> JSON:
    outputs = [
        {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": [*([-1] if tensor.batched else []), *tensor.row_shape],
        }
        for tensor in answer.tensors
    ]
    described = {
        "name": endpoint.model,
        "versions": [],
        "platform": "covenant_fallback",
        "inputs": [],
        "outputs": outputs,
    }
    return {
        "model": json.dumps(endpoint.model),
        "plain": answer.plain,
        "reason": json.dumps(answer.reason),
        # A header's value: nothing but visible ASCII.
        "reason_word": answer.reason.encode("ascii", "replace").decode().replace("\n", " "),
        "metadata": json.dumps(described),
        "tensors": [
            {
                "name": json.dumps(tensor.name),
                "datatype": tensor.datatype,
                "batched": tensor.batched,
                "row_shape": ",".join(map(str, tensor.row_shape)),
                "row": tensor.row,
            }
            for tensor in answer.tensors
        ],
    }


def _answer_match(name: str) -> JSON:
    return {"prefix": "/", "headers": [_exact(ANSWER_HEADER, name)]}


def _get(path: str) -> JSON:
    return {"path": path, "headers": [_method("GET")]}


def _pins(path: str) -> tuple[JSON, ...]:
    infer = {"path": f"{path}/infer", "headers": [_method("POST")]}
    return infer, _get(path), _get(f"{path}/ready")


def _method(method: str) -> JSON:
    return _exact(":method", method)


def _exact(name: str, value: str) -> JSON:
    return {"name": name, "string_match": {"exact": value}}
