"""Access policies, callers, keys and token issuers at their doors: pages, API, services."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from typing import Any

import pytest
from django.utils import timezone
from joserfc.jwk import ECKey, OctKey, RSAKey
from rest_framework.test import APIClient

from console.errors import CovenantError, Invalid
from console.models import AuditEntry, Notice, User
from deployments.models import AccessPolicy, CallerKey, Endpoint, TokenIssuer
from deployments.rules.access.caller_keys import digest_of
from deployments.rules.access.jwks import parse_jwks
from deployments.services.access import token_issuers
from deployments.services.gateways.desired import gateway_state
from deployments.services.traffic.splits import offer_first_traffic
from deployments.services.trials.load_tests import find_target
from models_registry.models import ModelVersion
from tests import factories
from tests.deployments.conftest import Fleet, ready_version
from tests.models_registry.browsing import Visitor

pytestmark = pytest.mark.django_db

ACCESS = "/api/v1/endpoints/production/fraud_detector/access/"
CALLERS = "/api/v1/environments/production/callers/"
ISSUERS = "/api/v1/environments/production/token-issuers/"
PAGE = "/endpoints/production/fraud_detector/access/"
KEYED = {"authentication": {"required": True, "api_key": True}}


def client_of(user: User) -> APIClient:
    client = APIClient()
    client.force_login(user)
    return client


@pytest.fixture
def one(fleet_rows: Fleet) -> Fleet:
    ready_version(fleet_rows, factories.make_version())
    return fleet_rows


@pytest.fixture
def sam(one: Fleet) -> APIClient:
    return client_of(one.sam.user)


def put(client: APIClient, policy: dict[str, Any], match: str = "*", reason: str = "So.") -> Any:
    body = {"policy": policy, "reason": reason}
    return client.put(ACCESS, body, format="json", headers={"If-Match": match})


def key_set(*keys: Any) -> dict[str, Any]:
    return {"keys": [key.as_dict(private=False) for key in keys]}


def rsa(kid: str = "one") -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "alg": "RS256", "use": "sig"})


def test_a_policy_is_replaced_by_naming_its_revision(one: Fleet, sam: APIClient) -> None:
    empty = sam.get(ACCESS)
    assert (empty["ETag"], empty.json()["policy"]["authentication"]["required"]) == ('"0"', False)
    made = put(sam, KEYED, '"0"')
    assert made.status_code == 200, made.json()
    assert made["ETag"] == '"1"'
    assert put(sam, KEYED, '"0"')["ETag"] == '"1"', "the same again is there already"
    late = put(sam, {}, '"0"')
    assert (late.status_code, late.json()["code"]) == (412, "stale_revision")
    assert "sam" in late.json()["detail"]
    assert put(sam, {}, '"1"')["ETag"] == '"2"'
    entry = AuditEntry.objects.latest("sequence")
    assert (entry.action, entry.reason) == ("access.change", "So.")
    assert entry.before["authentication"]["required"] is True
    assert entry.after["authentication"]["required"] is False
    without = sam.put(ACCESS, {"policy": {}, "reason": "x"}, format="json")
    assert without.status_code == 428


def test_faults_of_a_policy_are_told_at_their_places(one: Fleet, sam: APIClient) -> None:
    answer = put(sam, {"allow": {"networks": ["10.0.0.1/8"]}, "typo": 1})
    assert answer.status_code == 422
    pointers = {fault["pointer"] for fault in answer.json()["errors"]}
    assert pointers == {"/allow/networks/0", "/typo"}
    unknown = put(sam, {"authentication": {"issuers": ["nobody"]}})
    assert unknown.json()["code"] == "unknown_issuer"
    assert put(sam, KEYED, reason=" ").status_code == 422
    assert not AccessPolicy.objects.exists()


def test_gateways_are_told_of_policy_keys_and_issuers(one: Fleet, sam: APIClient) -> None:
    put(sam, KEYED)
    assert sam.post(CALLERS, {"name": "billing"}, format="json").status_code == 201
    made = sam.post(f"{CALLERS}billing/keys/", {}, format="json").json()
    sam.post(CALLERS, {"name": "rogue"}, format="json")
    sam.post(f"{CALLERS}rogue/block/", {"reason": "It floods us."}, format="json")
    issuer = {"issuer": "https://id.example", "audiences": ["models"], "jwks": key_set(rsa())}
    assert sam.put(f"{ISSUERS}acme/", issuer, format="json").status_code == 200
    state = gateway_state(one.gateway)
    assert state.endpoints[0].access.required
    known = state.directories["production"]
    assert known.keys == ((digest_of(made["key"]), "billing"),)
    assert known.blocked == ("rogue",)
    assert [one.issuer for one in known.issuers] == ["https://id.example"]
    assert state.directories["staging"].keys == ()


def test_a_key_is_shown_once_kept_nowhere_and_ends(one: Fleet, sam: APIClient) -> None:
    sam.post(CALLERS, {"name": "billing"}, format="json")
    answer = sam.post(f"{CALLERS}billing/keys/", {"expires_in_days": 1}, format="json")
    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    key = answer.json()["key"]
    assert key.startswith(answer.json()["prefix"] + "_")
    assert len(key) == 45
    shown = sam.get(f"{CALLERS}billing/").content.decode()
    assert key not in shown
    secret = key.rpartition("_")[2]
    kept = json.dumps(list(CallerKey.objects.values()), default=str)
    trail = json.dumps(list(AuditEntry.objects.values("before", "after", "subject")))
    assert secret not in kept + trail
    assert len(gateway_state(one.gateway).directories["production"].keys) == 1
    CallerKey.objects.update(expires_at=timezone.now())
    assert gateway_state(one.gateway).directories["production"].keys == ()
    assert sam.get(f"{CALLERS}billing/").json()["keys"][0]["usable"] is False
    wrong = sam.post(f"{CALLERS}billing/keys/", {"expires_in_days": 0}, format="json")
    assert wrong.json()["code"] == "invalid_expiry"


def test_a_revoked_key_is_not_told_to_gateways(one: Fleet, sam: APIClient) -> None:
    sam.post(CALLERS, {"name": "billing"}, format="json")
    prefix = sam.post(f"{CALLERS}billing/keys/", {}, format="json").json()["prefix"]
    assert sam.delete(f"{CALLERS}billing/keys/{prefix}/").status_code == 200
    assert gateway_state(one.gateway).directories["production"].keys == ()
    before = AuditEntry.objects.count()
    assert sam.delete(f"{CALLERS}billing/keys/{prefix}/").status_code == 200
    assert AuditEntry.objects.count() == before
    assert sam.delete(f"{CALLERS}billing/keys/cvk_none/").status_code == 404


def test_only_who_runs_gateways_manages_callers(one: Fleet) -> None:
    people = factories.people()
    for person in (people.dana, people.bea, people.vic):
        client = client_of(person)
        assert client.post(CALLERS, {"name": "x"}, format="json").status_code == 403
        assert put(client, KEYED).status_code == 403
        assert client.get(CALLERS).status_code == 200


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ([], "1 to 50"),
        ([OctKey.generate_key(256).as_dict(private=True)], "RSA, EC or OKP"),
        ([rsa("private").as_dict(private=True)], "private key"),
        ([ECKey.generate_key("secp256k1").as_dict(private=False)], "curve"),
        ([{"kty": "RSA", "n": "u" * 171, "e": "AQAB"}], "2048 bits"),
        ([{"kty": "RSA", "n": "!" * 400, "e": "AQAB"}], "cannot be read"),
        ([{"kty": "EC", "crv": "P-256", "x": "!", "y": "?"}], "cannot be read"),
        (["none"], "RSA, EC or OKP"),
    ],
)
def test_a_key_set_that_no_gateway_should_have_is_refused(keys: list[Any], why: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_jwks({"keys": keys})
    assert any(why in fault.detail for fault in refused.value.errors)


def test_a_published_key_set_is_taken_without_what_does_not_fit() -> None:
    good, odd = rsa(), ECKey.generate_key("secp256k1")
    document = json.dumps({"keys": [*key_set(good, odd)["keys"], {"use": "enc", "kty": "RSA"}]})
    kept = parse_jwks(document, strict=False)
    assert [key["kid"] for key in kept["keys"]] == ["one"]


class KeySetServer:
    """An issuer that publishes what it is told to, or fails."""

    def __init__(self) -> None:
        self.document: Any = {}
        self.status = 200
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(server.document).encode()
                self.send_response(server.status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/keys"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def published(settings: Any) -> Iterator[KeySetServer]:
    settings.PRIVATE_ADDRESSES = (ip_network("127.0.0.0/8"),)
    server = KeySetServer()
    yield server
    server.stop()


def test_published_keys_are_fetched_and_the_last_good_ones_kept(
    one: Fleet, sam: APIClient, published: KeySetServer
) -> None:
    published.document = key_set(rsa("old"))
    body = {"issuer": "https://id.example", "audiences": ["m"], "jwks_url": published.url}
    made = sam.put(f"{ISSUERS}acme/", body, format="json")
    assert made.status_code == 200, made.json()
    assert [key["kid"] for key in made.json()["jwks"]["keys"]] == ["old"]

    published.document = key_set(rsa("new"))
    now = timezone.now()
    assert token_issuers.refresh_due(now) == 0, "not due yet"
    assert token_issuers.refresh_due(now + timedelta(minutes=2)) == 1
    assert TokenIssuer.objects.get().jwks["keys"][0]["kid"] == "new"
    entry = AuditEntry.objects.latest("sequence")
    assert (entry.action, entry.before["keys"], entry.after["keys"]) == (
        "token_issuer.keys",
        ["old"],
        ["new"],
    )

    published.status = 500
    assert token_issuers.refresh_due(now + timedelta(minutes=10)) == 0
    assert not Notice.objects.filter(kind="token_issuer.stale").exists()
    assert token_issuers.refresh_due(now + timedelta(hours=2)) == 0
    assert TokenIssuer.objects.get().jwks["keys"][0]["kid"] == "new"
    assert Notice.objects.filter(kind="token_issuer.stale", recipient=one.sam.user).exists()
    refused = sam.post(f"{ISSUERS}acme/refresh/", {}, format="json")
    assert refused.status_code == 503

    published.status = 200
    assert sam.post(f"{ISSUERS}acme/refresh/", {}, format="json").status_code == 200
    assert not Notice.objects.filter(kind="token_issuer.stale", ended_at__isnull=True).exists()


def test_keys_are_not_fetched_from_inside_the_house(
    one: Fleet, sam: APIClient, published: KeySetServer, settings: Any
) -> None:
    settings.PRIVATE_ADDRESSES = ()
    body = {"issuer": "https://id.example", "audiences": ["m"], "jwks_url": published.url}
    answer = sam.put(f"{ISSUERS}acme/", body, format="json")
    assert (answer.status_code, answer.json()["code"]) == (503, "address_not_allowed")


def test_an_issuer_that_a_policy_names_is_not_removed(one: Fleet, sam: APIClient) -> None:
    body = {"issuer": "https://id.example", "audiences": ["m"], "jwks": key_set(rsa())}
    sam.put(f"{ISSUERS}acme/", body, format="json")
    twin = sam.put(f"{ISSUERS}twin/", body, format="json")
    assert (twin.status_code, twin.json()["code"]) == (409, "issuer_taken")
    put(sam, {"authentication": {"issuers": ["acme"]}})
    refused = sam.delete(f"{ISSUERS}acme/")
    assert (refused.status_code, refused.json()["code"]) == (409, "issuer_in_use")
    put(sam, {})
    assert sam.delete(f"{ISSUERS}acme/").status_code == 204
    body["audiences"] = []
    assert sam.put(f"{ISSUERS}acme/", body, format="json").status_code == 422


def test_the_page_puts_a_policy_in_force_and_says_who_gets_what(one: Fleet) -> None:
    page = Visitor(one.sam.user)
    assert "open to everybody" in page.get(PAGE)
    filled = {
        "required": "on",
        "api_key": "on",
        "deny_callers": "rogue\nother",
        "allow_networks": "10.0.0.0/8",
        "per_caller_requests": "100",
        "per_caller_per": "1s",
        "per_caller_burst": "200",
        "total_per": "1s",
        "validation": "refuse",
        "onto_baseline": "on",
        "reason": "Only those we know.",
        "revision": "0",
    }
    sent = page.client.post(PAGE, filled)
    assert sent.status_code == 302, sent.content.decode()
    policy = AccessPolicy.objects.get()
    assert policy.document["rate_limits"]["per_caller"] == {
        "requests": 100,
        "per": "1s",
        "burst": 200,
    }
    assert policy.document["rate_limits"]["total"] is None
    assert policy.document["deny"]["callers"] == ["rogue", "other"]
    shown = page.get(PAGE)
    for words in ("401 authentication_required", "403 caller_denied", "429 rate_limited"):
        assert words in shown
    again = page.client.post(PAGE, {**filled, "api_key": ""})
    assert again.status_code == 422
    assert "changed" in again.content.decode() or "Nobody could call" in again.content.decode()
    wrong = page.client.post(PAGE, {**filled, "revision": "1", "allow_networks": "10.0.0.1/8"})
    assert wrong.status_code == 422
    assert "The network of this address is 10.0.0.0/8." in wrong.content.decode()


def test_pages_of_callers(one: Fleet) -> None:
    page = Visitor(one.sam.user)
    assert "No caller yet" in page.get("/environments/production/callers/")
    made = page.client.post("/environments/production/callers/", {"name": "billing"})
    assert made.status_code == 302
    there = "/environments/production/callers/billing/"
    assert "no key yet" in page.get(there)
    keyed = page.client.post(f"{there}keys/", {"expires_in_days": "30"})
    key = CallerKey.objects.get()
    assert keyed["Cache-Control"] == "no-store"
    assert f"{key.prefix}_" in keyed.content.decode()
    assert f"{key.prefix}_" not in page.get(there)
    page.client.post(f"{there}keys/{key.prefix}/revoke/", {"reason": "Lost."})
    assert "revoked" in page.get(there)
    page.client.post(f"{there}block/", {"blocked": "1", "reason": "It floods us."})
    assert "Let it call again" in page.get(there)
    assert "blocked" in page.get("/environments/production/callers/")
    page.client.post(f"{there}block/", {"blocked": "0", "reason": "Mended."})
    assert "Let it call again" not in page.get(there)
    taken = page.client.post("/environments/production/callers/", {"name": "billing"})
    assert taken.status_code == 422
    assert page.get("/environments/nowhere/callers/").status == 404


def test_who_may_not_change_is_shown_and_offered_nothing(one: Fleet) -> None:
    page = Visitor(factories.people().vic)
    assert "Put it in force" not in page.get(PAGE)
    assert "Register a caller" not in page.get("/environments/production/callers/")


def test_a_gateway_that_cannot_do_it_is_named_before_anything_is_written(
    one: Fleet, sam: APIClient
) -> None:
    one.gateway.adapter = "kong"
    one.gateway.save()
    refused = put(sam, KEYED)
    assert (refused.status_code, refused.json()["code"]) == (409, "not_by_gateway")
    assert one.gateway.name in refused.json()["detail"]
    assert put(sam, {"retries": {"onto_baseline": False}}).status_code == 200


def test_a_stored_policy_that_cannot_be_read_lets_nobody_in(one: Fleet) -> None:
    AccessPolicy.objects.create(
        endpoint=Endpoint.objects.get(), document={"from": "later"}, changed_by=one.sam.user
    )
    rules = gateway_state(one.gateway).endpoints[0].access
    assert set(rules.deny_networks) == {"0.0.0.0/0", "::/0"}


def test_errors_of_services_carry_words() -> None:
    with pytest.raises(CovenantError) as refused:
        parse_jwks("no json")
    assert refused.value.hint


def test_a_load_test_says_that_a_policy_would_not_let_it_in(one: Fleet, sam: APIClient) -> None:
    version = ModelVersion.objects.get()
    first = offer_first_traffic(Endpoint.objects.get(), version.number, one.sam)
    assert first is not None
    assert find_target(version, one.production).gateway == one.gateway.name
    put(sam, KEYED)
    with pytest.raises(CovenantError) as refused:
        find_target(version, one.production)
    assert refused.value.code == "access_policy"
    put(sam, {"rate_limits": {"total": {"requests": 5}}})
    assert find_target(version, one.production)
