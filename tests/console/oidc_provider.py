"""A real OpenID provider (Canaille) for the tests, as a process of its own: PORT RETURN_URL FOLDER.

People: dana, sam, and eve, whose e-mail address is that of somebody else. Their password is
`PROVIDER_PASSWORD`; dana is in the group ml-people, sam in ops.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from canaille import create_app
from canaille.app import models
from canaille.backends import Backend
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

PROVIDER_PASSWORD = "a password of the provider"
CLIENT_ID, CLIENT_SECRET = "covenant", "a secret between the two"


def main(port: int, return_url: str, folder: Path) -> None:
    """Serve at http://localhost:PORT until the process ends."""
    key = RSAKey.generate_key(2048, parameters={"kid": "test"})
    app = create_app(
        config={
            "SECRET_KEY": "only for the tests",
            "SERVER_NAME": f"localhost:{port}",
            "PREFERRED_URL_SCHEME": "http",
            "SESSION_COOKIE_NAME": "provider_session",
            "CANAILLE": {
                "DATABASE": "memory",
                "LOGGING": {"version": 1, "root": {"level": "WARNING"}},
                "JAVASCRIPT": False,
            },
            "CANAILLE_OIDC": {
                "ACTIVE_JWKS": [key.as_dict(private=True)],
                "TRUSTED_DOMAINS": ["localhost"],
            },
        },
    )
    with app.app_context():
        _fill(return_url)
    (folder / "ready").write_text(json.dumps({"port": port}))
    make_server("127.0.0.1", port, app, threaded=True).serve_forever()


def _fill(return_url: str) -> None:
    people = {}
    for name, email in (
        ("dana", "dana@example.com"),
        ("sam", "sam@example.com"),
        ("eve", "ada@example.com"),
    ):
        people[name] = models.User(
            user_name=name,
            display_name=name,
            formatted_name=f"{name.capitalize()} of the provider",
            family_name=name,
            emails=[email],
            password=PROVIDER_PASSWORD,
        )
        Backend.instance.save(people[name])
    for group, member in (("ml-people", "dana"), ("ops", "sam")):
        Backend.instance.save(models.Group(display_name=group, members=[people[member]]))
    client = models.Client(
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        client_name="Covenant",
        client_uri=return_url.rpartition("/sign-in/")[0],
        client_id_issued_at=datetime.now(tz=UTC),
        redirect_uris=[return_url],
        post_logout_redirect_uris=[],
        grant_types=["authorization_code"],
        response_types=["code"],
        scope=["openid", "profile", "email", "groups"],
        token_endpoint_auth_method="client_secret_basic",
        id_token_signed_response_alg="RS256",
    )
    Backend.instance.save(client)
    client.audience = [client]
    Backend.instance.save(client)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
