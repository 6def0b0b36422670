"""OpenSSF model signing (OMS) of a placed version, by the `model-signing` package.

What is signed is a Triton model's folder as far as one version goes: `config.pbtxt`, the warm-up
files and the version's own folder. The signature is a Sigstore bundle with a manifest of SHA-256
digests; anybody checks it with `model_signing verify key --ignore_unsigned_files`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from console.errors import Conflict, Unavailable

SIGNATURES = "signatures"


def sign(folder: Path, version: int, *, private_key: Path) -> dict[str, Any]:
    """The signature over version `version` in the Triton model's `folder`, as JSON.

    `private_key` is an unencrypted P-256 key in PEM. Raises Unavailable when a file cannot be read.
    """
    # Here, and below: 24 MiB that only a node's worker needs.
    from model_signing import hashing, signing

    others = [
        entry
        for entry in folder.iterdir()
        if entry.is_dir() and entry.name.isdecimal() and entry.name != str(version)
    ]
    scope = hashing.Config().set_ignored_paths(paths=others, ignore_git_paths=False)  # type: ignore[no-untyped-call]
    signer = signing.Config().use_elliptic_key_signer(private_key=private_key)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory(prefix="covenant-oms-") as scratch:
        target = Path(scratch) / "model.sig"
        try:
            signer.set_hashing_config(scope).sign(folder, target)
            signature: dict[str, Any] = json.loads(target.read_text())
        except (OSError, ValueError) as error:
            raise Unavailable(
                f"{folder.name} version {version} could not be signed: {error}",
                code="folder_not_signed",
                hint="Check that the node's worker may read the model repository.",
            ) from error
    return signature


def verify(folder: Path, signature: dict[str, Any], *, public_key_pem: str) -> None:
    """Check a signature against what lies in `folder` now.

    Files of other versions are left out. Raises Conflict `folder_signature_invalid`.
    """
    from model_signing import verifying

    with tempfile.TemporaryDirectory(prefix="covenant-oms-") as scratch:
        bundle, key = Path(scratch) / "model.sig", Path(scratch) / "key.pem"
        bundle.write_text(json.dumps(signature))
        key.write_text(public_key_pem)
        verifier = verifying.Config().use_elliptic_key_verifier(public_key=key)  # type: ignore[no-untyped-call]
        try:
            verifier.set_ignore_unsigned_files(True).verify(folder, bundle)
        except (OSError, ValueError, KeyError) as error:
            raise Conflict(
                f"The signature of the folder {folder.name} does not hold: {error}",
                code="folder_signature_invalid",
                hint="Compare the files with those of the release, then deploy it again.",
            ) from error


def forget(root: Path, triton_model: str, version: int) -> None:
    """The version is taken off: so is the signature beside its repository."""
    (root.parent / SIGNATURES / f"{triton_model}-{version}.sig").unlink(missing_ok=True)


def keep_beside(root: Path, triton_model: str, version: int, signature: dict[str, Any]) -> Path:
    """Write the signature to `<home>/signatures/`, for those who check on the node itself."""
    folder = root.parent / SIGNATURES
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{triton_model}-{version}.sig"
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(signature))
    draft.replace(path)
    return path
