"""A real directory (slapd): passwords asked there, groups followed, nothing taken unencrypted."""

from __future__ import annotations

import logging
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from django.core.cache import cache
from django.test import Client
from django_otp.oath import totp
from django_otp.plugins.otp_totp.models import TOTPDevice

from console.env import load
from console.env_sign_in import LdapConfig, SignInConfig
from console.errors import Invalid, Unavailable
from console.models import AuditEntry, ExternalIdentity, Session, Team, User
from console.rules.group_roles import parse_rules
from console.services import attempts
from console.services.directory import ask_directory, check_directory
from console.services.reauthentication import confirm
from console.stack import process
from tests import stack
from tests.factories import PASSWORD, actor, make_user

pytestmark = pytest.mark.django_db
SLAPD = shutil.which("slapd") or shutil.which("slapd", path="/usr/sbin:/usr/local/sbin")
BASE = "dc=example,dc=com"
ADMIN = f"cn=console,{BASE}"
ADMIN_PASSWORD = "the console's own"
DIRECTORY_PASSWORD = "the directory's own (and *)"

CONFIG = f"""
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {{folder}}/pid
TLSCertificateFile {{folder}}/server.pem
TLSCertificateKeyFile {{folder}}/server.key
# A directory that takes a bind without a password for an anonymous one, as many do.
allow bind_anon_cred bind_anon_dn
database mdb
suffix "{BASE}"
rootdn "{ADMIN}"
rootpw "{ADMIN_PASSWORD}"
directory {{folder}}/data
access to attrs=userPassword by anonymous auth by * none
access to * by dn="{ADMIN}" read by anonymous auth by * none
"""
PEOPLE = f"""
dn: {BASE}
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: ou=people,{BASE}
objectClass: organizationalUnit
ou: people

dn: uid=sam,ou=people,{BASE}
objectClass: inetOrgPerson
uid: sam
cn: Sam of the directory
sn: Directory
mail: sam@example.com
userPassword: {DIRECTORY_PASSWORD}

dn: uid=dana,ou=people,{BASE}
objectClass: inetOrgPerson
uid: dana
cn: Dana
sn: Dana
userPassword: {DIRECTORY_PASSWORD}

dn: cn=ops,{BASE}
objectClass: groupOfNames
cn: ops
member: uid=sam,ou=people,{BASE}

dn: cn=engineers,{BASE}
objectClass: groupOfNames
cn: engineers
member: cn=ops,{BASE}
"""


@dataclass(frozen=True, slots=True)
class Directory:
    """A running slapd; plain, and by TLS as 127.0.0.1, which its certificate is for."""

    plain: str
    tls: str
    folder: Path


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    pytest.importorskip("django_auth_ldap", reason="deploy/requirements/ldap.txt is not installed")
    if SLAPD is None:
        pytest.skip("slapd is not installed: apt-get install slapd")
    folder = tmp_path_factory.mktemp("slapd")
    (folder / "data").mkdir()
    write_certificate(folder)
    (folder / "slapd.conf").write_text(CONFIG.format(folder=folder))
    filled = subprocess.run(
        [shutil.which("slapadd", path="/usr/sbin:/usr/local/sbin:/usr/bin") or "slapadd",
         "-f", str(folder / "slapd.conf")],
        input=PEOPLE.strip(), text=True, capture_output=True, timeout=30,
    )  # fmt: skip
    assert filled.returncode == 0, filled.stderr
    plain, tls = stack.free_port(), stack.free_port()
    found = Directory(f"ldap://127.0.0.1:{plain}", f"ldaps://127.0.0.1:{tls}", folder)
    log = folder / "log"
    child = process.spawn(
        process.Command(
            argv=[SLAPD, "-d", "0", "-f", str(folder / "slapd.conf"),
                  "-h", f"{found.plain} {found.tls} ldaps://127.0.0.2:{tls}"],
            env={"PATH": "/usr/sbin:/usr/bin:/bin"},
            cwd=folder,
        ),
        log,
    )  # fmt: skip
    try:
        stack.wait_until("slapd", lambda: answers(plain), child, log)
        yield found
    finally:
        process.stop(child, signal.SIGTERM, seconds=5)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def write_certificate(folder: Path) -> None:
    """A certificate for 127.0.0.1 that signs itself, and its key.

    For the address: OpenLDAP's client takes the name localhost for the machine's own name.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(tz=UTC)
    names = [x509.IPAddress(ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "server.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


@pytest.fixture
def config(directory: Directory, settings: Any) -> LdapConfig:
    """The console asks this directory; people of it may come in."""
    cache.clear()
    attempts._counts.clear()
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    chosen = LdapConfig(
        url=directory.plain,
        base=BASE,
        bind_dn=ADMIN,
        bind_password=ADMIN_PASSWORD,
        group_base=BASE,
        group_rules=parse_rules("ops=sre;engineers=team/payments"),
        sign_up="anybody",
        start_tls=False,
    )
    use(settings, chosen)
    return chosen


def use(settings: Any, chosen: LdapConfig) -> None:
    settings.CONFIG = replace(settings.CONFIG, sign_in=SignInConfig(ldap=chosen))


def sign_in(name: str, password: str = DIRECTORY_PASSWORD) -> tuple[Client, Any]:
    client = Client()
    return client, client.post("/sign-in/", {"username": name, "password": password})


def test_somebody_of_the_directory_comes_in_with_the_roles_of_their_groups(
    config: LdapConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    make_user("ada", "platform_admin")
    Team.objects.create(name="Payments", slug="payments")
    client, answer = sign_in("sam")
    assert answer.status_code == 302, answer.content.decode()
    assert client.get("/jobs/").status_code == 200
    sam = User.objects.get(username="sam")
    assert (sam.roles, sam.display_name) == (["sre"], "Sam of the directory")
    # A group inside a group counts.
    assert [m.team.slug for m in sam.memberships.all()] == ["payments"]
    assert not sam.has_usable_password()
    assert Session.objects.get(user=sam).means == "ldap"
    succeeded = AuditEntry.objects.get(action="sign_in.succeeded")
    assert succeeded.after == {"by": "ldap"}
    # A second factor is asked beside the directory's password too.
    device = TOTPDevice.objects.create(user=sam, name="phone", confirmed=True)
    client, answer = sign_in("sam")
    assert answer["Location"] == "/sign-in/code/"
    client.post("/sign-in/code/", {"code": f"{totp(device.bin_key):06d}"})
    assert Session.objects.filter(user=sam, means="ldap+totp").exists()
    confirm(actor=actor(sam), password=DIRECTORY_PASSWORD)
    with pytest.raises(Invalid):
        confirm(actor=actor(sam), password="wrong")
    assert DIRECTORY_PASSWORD not in caplog.text
    assert ADMIN_PASSWORD not in caplog.text


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("sam", "wrong"),
        ("sam", ""),
        ("sam", " "),
        ("nobody", DIRECTORY_PASSWORD),
        ("*", DIRECTORY_PASSWORD),
        ("s*", DIRECTORY_PASSWORD),
        ("sam)(uid=*", DIRECTORY_PASSWORD),
        ("sam", DIRECTORY_PASSWORD + "\0"),
    ],
)
def test_wrong_empty_and_crafted_ones_are_refused(
    config: LdapConfig, name: str, password: str
) -> None:
    assert ask_directory(username=name, password=password) is None
    _, answer = sign_in(name, password)
    assert answer.status_code == 422
    assert not User.objects.filter(username="sam").exists()
    if password and "\0" not in password:
        assert "The name or the password is not right." in answer.content.decode()


def test_a_name_that_is_taken_here_is_not_entered_by_the_directory(config: LdapConfig) -> None:
    dana = make_user("dana", "platform_admin", password=PASSWORD)
    sign_in("dana")
    assert not ExternalIdentity.objects.filter(user=dana).exists()
    assert not Session.objects.filter(user=dana).exists()
    assert ExternalIdentity.objects.get().user.username == "dana-2"
    sign_in("dana", PASSWORD)
    assert Session.objects.get(user=dana).means == "password"


def test_who_was_not_invited_or_is_deactivated_stays_out(config: LdapConfig, settings: Any) -> None:
    use(settings, replace(config, sign_up="invited"))
    _, answer = sign_in("sam")
    assert "You have no account here yet." in answer.content.decode()
    use(settings, config)
    make_user("ada", "platform_admin")
    sign_in("sam")
    User.objects.filter(username="sam").update(is_active=False)
    client, answer = sign_in("sam")
    assert "The account sam is deactivated." in answer.content.decode()
    assert client.get("/jobs/").status_code == 302
    why = [entry.after["why"] for entry in AuditEntry.objects.filter(action="sign_in.failed")]
    assert sorted(why) == ["deactivated", "not_invited"]


def test_the_line_is_encrypted_and_its_other_end_checked(
    config: LdapConfig, directory: Directory
) -> None:
    trusting = replace(config, url=directory.tls, ca=directory.folder / "server.pem")
    assert "knows" in check_directory(trusting)
    assert "knows" in check_directory(
        replace(config, url=directory.plain,
                ca=directory.folder / "server.pem", start_tls=True)
    )  # fmt: skip
    with pytest.raises(Unavailable):
        check_directory(replace(config, url=directory.tls))
    with pytest.raises(Unavailable):
        # The same server under an address that its certificate does not speak of.
        check_directory(replace(trusting, url=directory.tls.replace("127.0.0.1", "127.0.0.2")))
    with pytest.raises(Unavailable):
        check_directory(replace(config, bind_password="wrong"))


def test_a_directory_that_is_away_is_said_and_keeps_nobody_out_who_is_of_here(
    config: LdapConfig, settings: Any
) -> None:
    use(settings, replace(config, url="ldap://127.0.0.1:1"))
    make_user("dana", password=PASSWORD)
    _, answer = sign_in("sam")
    assert answer.status_code == 503
    assert "could not be asked" in answer.content.decode()
    _, answer = sign_in("dana", PASSWORD)
    assert answer.status_code == 302


@pytest.mark.parametrize(
    ("url", "more", "start_tls"),
    [
        ("ldap://127.0.0.1:3389", {}, False),
        ("ldap://directory.example.com", {}, True),
        ("ldap://directory.example.com", {"COVENANT_LDAP_ALLOW_PLAIN": "1"}, False),
        ("ldaps://directory.example.com", {}, False),
    ],
)
def test_only_this_machine_is_spoken_to_in_the_clear(
    url: str, more: dict[str, str], start_tls: bool, tmp_path: Path
) -> None:
    found = load(
        {
            "COVENANT_HOME": str(tmp_path),
            "COVENANT_LDAP_URL": url,
            "COVENANT_LDAP_BASE": BASE,
            **more,
        }
    ).sign_in.ldap
    assert found is not None
    assert found.start_tls is start_tls
