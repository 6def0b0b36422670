"""The order in which one Envoy is told, without any Envoy."""

from __future__ import annotations

from google.protobuf.any_pb2 import Any

from deployments.adapters.envoy.ordering import Delivery, Kind, Message
from deployments.adapters.envoy.resources import Resource, ResourceSet


def resources(*clusters: str, routed: tuple[str, ...] | None = None, turn: str = "") -> ResourceSet:
    """Clusters by name, one listener, and one table that needs `routed` (all clusters)."""
    needs = frozenset(clusters if routed is None else routed)
    digest = "+".join(sorted(needs)) + turn
    return ResourceSet(
        clusters={name: Resource(name, f"{name}{turn}", Any()) for name in clusters},
        listeners={"edge": Resource("edge", "edge", Any())},
        routes={"table": Resource("table", digest, Any(), needs)},
    )


def subscribed(delivery: Delivery, versions: dict[Kind, str] | None = None) -> None:
    for kind, names in ((Kind.CLUSTERS, ()), (Kind.LISTENERS, ()), (Kind.ROUTES, ("table",))):
        delivery.subscribe(kind, names, (versions or {}).get(kind, ""))


def names(message: Message) -> list[str]:
    return [resource.name for resource in message.resources]


def settle(delivery: Delivery) -> list[Message]:
    """Accept everything until nothing more is sent; returns all that was sent."""
    sent: list[Message] = []
    while waiting := delivery.messages():
        for message in waiting:
            sent.append(message)
            delivery.accept(message.kind)
    return sent


def settled(target: ResourceSet) -> Delivery:
    delivery = Delivery()
    delivery.aim(target)
    subscribed(delivery)
    settle(delivery)
    return delivery


def test_nothing_is_sent_before_there_is_something_to_say() -> None:
    delivery = Delivery()
    subscribed(delivery)
    assert delivery.messages() == []
    assert not delivery.in_effect()


def test_routes_wait_for_the_first_clusters() -> None:
    delivery = Delivery()
    delivery.aim(resources("a", "b"))
    subscribed(delivery)
    assert [message.kind for message in delivery.messages()] == [Kind.CLUSTERS, Kind.LISTENERS]
    assert delivery.messages() == []
    delivery.accept(Kind.LISTENERS)
    assert delivery.messages() == []
    delivery.accept(Kind.CLUSTERS)
    assert [message.kind for message in delivery.messages()] == [Kind.ROUTES]
    assert not delivery.in_effect()
    delivery.accept(Kind.ROUTES)
    assert delivery.in_effect()
    assert delivery.messages() == []


def test_clusters_come_before_routes_and_go_after_them() -> None:
    delivery = settled(resources("a"))
    delivery.aim(resources("b"))
    (first,) = delivery.messages()
    assert (first.kind, names(first)) == (Kind.CLUSTERS, ["a", "b"])
    delivery.accept(Kind.CLUSTERS)
    (second,) = delivery.messages()
    assert second.kind is Kind.ROUTES
    delivery.accept(Kind.ROUTES)
    assert delivery.in_effect()
    (third,) = delivery.messages()
    assert (third.kind, names(third)) == (Kind.CLUSTERS, ["b"])
    delivery.accept(Kind.CLUSTERS)
    assert delivery.messages() == []


def test_a_cluster_lingers_after_its_last_route_and_may_come_back_meanwhile() -> None:
    """Requests on their way have chosen it already."""
    now = [100.0]
    delivery = Delivery(linger_s=2.0, clock=lambda: now[0])
    delivery.aim(resources("a"))
    subscribed(delivery)
    settle(delivery)
    assert not delivery.lingers()
    delivery.aim(resources("b"))
    settle(delivery)
    assert delivery.in_effect()
    assert delivery.lingers()
    now[0] = 101.9
    assert delivery.messages() == []
    delivery.aim(resources("a", "b"))
    assert [message.kind for message in settle(delivery)] == [Kind.ROUTES]
    assert not delivery.lingers()
    delivery.aim(resources("b"))
    settle(delivery)
    now[0] = 103.8
    assert delivery.messages() == []
    now[0] = 104.0
    (last,) = settle(delivery)
    assert (last.kind, names(last)) == (Kind.CLUSTERS, ["b"])
    assert delivery.messages() == []
    assert not delivery.lingers()


def test_routes_that_need_nothing_new_are_sent_at_once() -> None:
    delivery = settled(resources("a", "b", routed=("a",)))
    delivery.aim(resources("a", "b", "slow", routed=("b",)))
    assert {message.kind for message in delivery.messages()} == {Kind.CLUSTERS, Kind.ROUTES}


def test_a_later_state_overtakes_one_that_is_still_under_way() -> None:
    delivery = settled(resources("a", "b", routed=("a",)))
    delivery.aim(resources("a", "b", "c", routed=("c",)))
    (clusters,) = delivery.messages()
    delivery.aim(resources("a", "b", routed=("b",)))
    (routes,) = delivery.messages()
    assert routes.kind is Kind.ROUTES
    delivery.accept(Kind.ROUTES)
    delivery.accept(Kind.CLUSTERS)
    assert delivery.in_effect()
    assert names(clusters) == ["a", "b", "c"]
    (last,) = delivery.messages()
    assert names(last) == ["a", "b"]


def test_what_was_refused_is_not_sent_again_until_the_state_changes() -> None:
    delivery = settled(resources("a", "b", routed=("a",)))
    delivery.aim(resources("a", "b", routed=("b",)))
    (routes,) = delivery.messages()
    delivery.refuse(Kind.ROUTES, "no")
    assert delivery.messages() == []
    assert not delivery.in_effect()
    delivery.aim(resources("a", "b", routed=("b",)))
    (again,) = delivery.messages()
    assert again.version == routes.version
    assert again.nonce != routes.nonce


def test_a_refused_cluster_holds_back_only_routes_that_need_it() -> None:
    delivery = settled(resources("good"))
    delivery.aim(resources("good", "bad"))
    delivery.messages()
    delivery.refuse(Kind.CLUSTERS, "Error adding cluster(s) bad: it is wrong")
    assert delivery.messages() == [], "the older table stays in force"
    delivery.aim(resources("good", "fine", "bad", routed=("good", "fine")))
    delivery.messages()
    delivery.refuse(Kind.CLUSTERS, "Error adding cluster(s) bad: it is wrong")
    assert [message.kind for message in delivery.messages()] == [Kind.ROUTES]


def test_a_new_gateway_gets_its_routes_though_a_cluster_was_refused() -> None:
    delivery = Delivery()
    delivery.aim(resources("good", "bad"))
    subscribed(delivery)
    delivery.messages()
    delivery.refuse(Kind.CLUSTERS, "Error adding cluster(s) bad: it is wrong")
    assert [message.kind for message in delivery.messages()] == [Kind.ROUTES]


def test_only_the_newest_message_can_be_answered() -> None:
    delivery = settled(resources("a"))
    delivery.aim(resources("a", "b"))
    (clusters,) = delivery.messages()
    assert delivery.is_current(Kind.CLUSTERS, clusters.nonce)
    assert not delivery.is_current(Kind.CLUSTERS, str(int(clusters.nonce) - 1))
    assert not delivery.is_current(Kind.CLUSTERS, "")


def test_a_gateway_that_kept_its_state_is_led_on_without_a_gap() -> None:
    """Its stream broke, and meanwhile version a was taken away: clusters still go last."""
    before = settled(resources("a"))
    memory = before.memory()
    delivery = Delivery(memory)
    delivery.aim(resources("b"))
    subscribed(delivery, dict(memory.versions))
    sent = [
        (message.kind, message.resources[0].digest, names(message)) for message in settle(delivery)
    ]
    assert sent == [
        (Kind.CLUSTERS, "a", ["a", "b"]),
        (Kind.LISTENERS, "edge", ["edge"]),
        (Kind.ROUTES, "a", ["table"]),
        (Kind.ROUTES, "b", ["table"]),
        (Kind.CLUSTERS, "b", ["b"]),
    ]


def test_a_gateway_that_restarted_is_told_everything_anew() -> None:
    memory = settled(resources("a")).memory()
    delivery = Delivery(memory)
    delivery.aim(resources("b"))
    subscribed(delivery)
    sent = [(message.kind, names(message)) for message in settle(delivery)]
    assert sent[0] == (Kind.CLUSTERS, ["b"])
    assert [kind for kind, _ in sent] == [Kind.CLUSTERS, Kind.LISTENERS, Kind.ROUTES]
    assert delivery.in_effect()


def test_a_new_name_in_a_subscription_is_answered() -> None:
    delivery = settled(resources("a"))
    assert delivery.messages() == []
    delivery.subscribe(Kind.ROUTES, ("table", "other"), "x")
    assert [message.kind for message in delivery.messages()] == [Kind.ROUTES]
    delivery.accept(Kind.ROUTES)
    delivery.subscribe(Kind.ROUTES, ("table",), "x")
    assert delivery.messages() == []
