"""People whom somebody else vouches for: which account they get, and what their groups give."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from django.test import RequestFactory

from console.env import ConfigError, load
from console.errors import Conflict, Invalid, NotAllowed
from console.models import AuditEntry, ExternalIdentity, Notice, User
from console.rules.group_roles import parse_rules, standing_of
from console.rules.outsiders import Outsider, free_username
from console.services.external_accounts import enter, link_identity, unlink_identity
from console.services.people import change_own_password
from console.views.sso import STATES, _take_state
from tests.factories import PASSWORD, actor, make_user

RULES = parse_rules("admins=platform_admin; CN=ops,DC=example=sre; ml=team/fraud:sre; ml=team/x")


def outsider(subject: str = "1", *groups: str, username: str = "kim") -> Outsider:
    return Outsider(
        source="oidc",
        issuer="https://id.example.com",
        subject=subject,
        username=username,
        email="dana@example.com",
        groups=groups,
    )


def test_groups_stand_for_roles_and_teams() -> None:
    standing = standing_of(["cn=OPS,dc=example", "ml"], RULES)
    assert standing.roles == ("sre",)
    assert standing.teams == {"fraud": ("sre",), "x": ()}
    assert standing_of(["other"], RULES).teams == {"fraud": None, "x": None}


@pytest.mark.parametrize(
    "text", ["admins", "admins=", "=sre", "a=king", "a=team/", "a=team/x:king"]
)
def test_a_mapping_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no role|is not group=|names no team"):
        parse_rules(text)


@pytest.mark.parametrize(
    ("name", "made"),
    [("Kim.Öz@Corp", "kim-oz-corp"), ("", "dana"), ("系统", "person"), ("taken", "taken-3")],
)
def test_a_new_name_is_plain_and_never_somebody_elses(name: str, made: str) -> None:
    person = outsider(username=name) if name != "系统" else Outsider("oidc", "i", "s", "系统")
    assert free_username(person, lambda one: one in {"taken", "taken-2"}) == made


@pytest.mark.django_db
def test_an_account_is_found_by_issuer_and_subject_alone() -> None:
    dana = make_user("dana", "data_scientist")
    link_identity(outsider=outsider("1"), actor=actor(dana))
    renamed = outsider("1", username="somebody-else")
    assert enter(outsider=renamed, sign_up="invited", rules=()) == dana
    with pytest.raises(NotAllowed) as refused:
        enter(outsider=outsider("2", username="dana"), sign_up="invited", rules=())
    assert refused.value.code == "not_invited"
    made = enter(outsider=outsider("2", username="dana"), sign_up="anybody", rules=())
    assert (made.username, made.roles) == ("dana-2", [])
    with pytest.raises(Conflict):
        link_identity(outsider=outsider("2"), actor=actor(dana))
    User.objects.filter(pk=dana.pk).update(is_active=False)
    with pytest.raises(NotAllowed) as refused:
        enter(outsider=outsider("1"), sign_up="anybody", rules=())
    assert refused.value.code == "deactivated"


@pytest.mark.django_db
def test_the_last_admin_stays_one_and_the_admins_are_told_until_it_is_mended() -> None:
    ada = make_user("ada", "platform_admin")
    link_identity(outsider=outsider("1"), actor=actor(ada))
    person = enter(outsider=outsider("1", "cn=ops,dc=example"), sign_up="invited", rules=RULES)
    assert person.roles == ["platform_admin", "sre"]
    notice = Notice.objects.get(recipient=ada, kind="groups.not_followed")
    assert notice.ended_at is None
    make_user("root", "platform_admin")
    person = enter(outsider=outsider("1", "cn=ops,dc=example"), sign_up="invited", rules=RULES)
    assert person.roles == ["sre"]
    notice.refresh_from_db()
    assert notice.ended_at is not None
    roles = AuditEntry.objects.filter(action="user.roles").order_by("sequence")
    assert [entry.after["roles"] for entry in roles] == [["platform_admin", "sre"], ["sre"]]


@pytest.mark.django_db
def test_the_last_way_in_is_not_taken_away_and_no_password_is_slipped_in() -> None:
    kim = enter(outsider=outsider("7"), sign_up="anybody", rules=())
    identity = ExternalIdentity.objects.get(user=kim)
    with pytest.raises(Conflict) as refused:
        unlink_identity(identity_id=identity.pk, actor=actor(kim))
    assert refused.value.code == "last_way_in"
    with pytest.raises(Conflict) as refused:
        change_own_password(old="", new="a long new password", actor=actor(kim))
    assert refused.value.code == "no_password_here"
    dana = make_user("dana", password=PASSWORD)
    own = link_identity(outsider=outsider("8"), actor=actor(dana))
    unlink_identity(identity_id=own.pk, actor=actor(dana))
    assert not dana.identities.exists()
    with pytest.raises(Invalid):
        change_own_password(old="wrong", new="a long new password", actor=actor(dana))


OIDC = {"COVENANT_OIDC_CLIENT_ID": "a", "COVENANT_OIDC_CLIENT_SECRET": "b"}
LDAP = {"COVENANT_LDAP_URL": "ldaps://directory.example.com"}


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"COVENANT_REQUIRE_SECOND_FACTOR": "some"}, "use none or admins or everybody"),
        (OIDC, "COVENANT_OIDC_ISSUER is not"),
        ({**OIDC, "COVENANT_OIDC_ISSUER": "http://id.example.com"}, "https://"),
        ({"COVENANT_OIDC_ISSUER": "https://id.example.com"}, "COVENANT_OIDC_CLIENT_ID is missing"),
        (
            {**OIDC, "COVENANT_OIDC_ISSUER": "https://id.example.com",
             "COVENANT_OIDC_SCOPES": "email"},
            "openid has to be among them",
        ),
        (
            {**OIDC, "COVENANT_OIDC_ISSUER": "https://id.example.com",
             "COVENANT_OIDC_GROUP_ROLES": "admins=king"},
            "'king' is no role",
        ),
        (LDAP, "COVENANT_LDAP_BASE is missing"),
        ({**LDAP, "COVENANT_LDAP_BASE": "dc=x", "COVENANT_LDAP_FILTER": "(uid=%s)"}, "%(user)s"),
        ({"COVENANT_LDAP_URL": "http://x", "COVENANT_LDAP_BASE": "dc=x"}, "use ldaps://host"),
    ],
)  # fmt: skip
def test_a_wrong_setting_stops_the_start_with_one_line(
    environment: dict[str, str], says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)) as refused:
        load({"COVENANT_HOME": str(tmp_path), **environment})
    assert "\n" not in str(refused.value)


def test_a_state_in_foreign_letters_is_none_of_ours(rf: RequestFactory) -> None:
    request: Any = rf.get("/sign-in/sso/return/", {"state": "é"})
    request.session = {STATES: {"begun-here": {"at": time.time()}}}
    with pytest.raises(NotAllowed) as refused:
        _take_state(request)
    assert refused.value.code == "wrong_state"
