"""What rules can be about: endpoints and nodes, and which of them a rule's scope takes in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from deployments.models import AlertRule, Endpoint, Node, NodeState
from deployments.rules.alerts.catalogue import Target


@dataclass(frozen=True, slots=True)
class EndpointThing:
    """An endpoint by its keys; `name` is "env/model"."""

    key: int
    name: str
    environment: int
    model: int


@dataclass(frozen=True, slots=True)
class NodeThing:
    """A node by its key, with the environments that it serves."""

    key: int
    name: str
    lost: bool
    environments: frozenset[int]


@dataclass(frozen=True, slots=True)
class Things:
    """Everything that can be looked at now."""

    endpoints: Mapping[int, EndpointThing] = field(default_factory=dict)
    nodes: Mapping[int, NodeThing] = field(default_factory=dict)

    def exists(self, target: Target) -> bool:
        """Whether what it is of is still there."""
        endpoint_there = target.endpoint is None or target.endpoint in self.endpoints
        return endpoint_there and (target.node is None or target.node in self.nodes)

    def in_scope(self, rule: AlertRule, target: Target) -> bool:
        """Whether a rule is about this thing."""
        if rule.node_id is not None and target.node != rule.node_id:
            return False
        endpoint = self.endpoints.get(target.endpoint) if target.endpoint is not None else None
        if rule.model_id is not None and (endpoint is None or endpoint.model != rule.model_id):
            return False
        if rule.environment_id is None:
            return True
        if endpoint is not None:
            return endpoint.environment == rule.environment_id
        node = self.nodes.get(target.node) if target.node is not None else None
        return node is not None and rule.environment_id in node.environments

    def name_of(self, target: Target) -> str:
        """What alerts of this thing are told together under."""
        if target.endpoint is not None and target.endpoint in self.endpoints:
            return self.endpoints[target.endpoint].name
        if target.node is not None and target.node in self.nodes:
            return f"node {self.nodes[target.node].name}"
        return "installation"


def watched_things() -> Things:
    """Every endpoint that has traffic to take, and every node; three queries."""
    endpoints = {
        key: EndpointThing(key, f"{environment}/{model}", environment_id, model_id)
        for key, environment, model, environment_id, model_id in Endpoint.objects.filter(
            current__isnull=False
        )
        .order_by()
        .values_list("pk", "environment__name", "model__name", "environment_id", "model_id")
    }
    serves: dict[int, set[int]] = defaultdict(set)
    for node, environment in Node.environments.through.objects.values_list(
        "node_id", "environment_id"
    ):
        serves[node].add(environment)
    nodes = {
        key: NodeThing(key, name, state == NodeState.LOST, frozenset(serves[key]))
        for key, name, state in Node.objects.order_by().values_list("pk", "name", "state")
    }
    return Things(endpoints, nodes)
