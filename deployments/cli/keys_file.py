"""A private signing key in a file of one's own; the server never sees it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import click

from console.rules import signing_keys
from deployments.cli.client import USAGE, CliError

MAX_KEY_FILE = 64 * 1024


def create_key_file(path: Path) -> signing_keys.PrivateKey:
    """Make an Ed25519 key and keep it encrypted under `path` (mode 0600)."""
    if path.exists():
        raise CliError(f"{path} exists already.", exit_code=USAGE, hint="Name another file.")
    passphrase = click.prompt(
        f"Passphrase for {path.name}", hide_input=True, confirmation_prompt=True, err=True
    )
    key = signing_keys.create_private_key("ed25519")
    # Before the file is made, so that a passphrase that does not do leaves none behind.
    pem = signing_keys.private_key_pem(key, passphrase=passphrase)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
    return key


def open_key(path: Path) -> signing_keys.PrivateKey:
    """The private key of a file that nobody else may read; its passphrase is asked for."""
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise CliError(
                f"Others than you may read {path} (its mode is {stat.S_IMODE(mode):04o}).",
                code="key_file_open",
                hint=f"Run `chmod 600 {path}`. If others could copy it, revoke the key and make "
                "a new one.",
            )
        pem = file.read(MAX_KEY_FILE)
    passphrase = click.prompt(f"Passphrase of {path.name}", hide_input=True, err=True)
    return signing_keys.load_private_key(pem, passphrase=passphrase)
