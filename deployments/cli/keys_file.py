"""A private signing key in a file of one's own; the server never sees it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from console.rules import signing_keys
from deployments.cli.client import USAGE, CliError


def create_key_file(path: Path) -> signing_keys.PublicKey:
    """Make an Ed25519 key, keep it encrypted under `path` (mode 0600), give its public half."""
    if path.exists():
        raise CliError(f"{path} exists already.", exit_code=USAGE, hint="Name another file.")
    passphrase = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True)
    key = signing_keys.create_private_key("ed25519")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(signing_keys.private_key_pem(key, passphrase=passphrase))
    return signing_keys.public_key_of(key)


def open_key(path: Path) -> signing_keys.PrivateKey:
    """The private key of a file; its passphrase is asked for."""
    passphrase = click.prompt(f"Passphrase of {path.name}", hide_input=True, err=True)
    return signing_keys.load_private_key(path.read_bytes(), passphrase=passphrase)
