"""The installation's signature over what it placed on a node, for verifiers from outside."""

from __future__ import annotations

from pathlib import Path

from console.errors import NotFound, Unavailable
from console.models import InstallationKey
from console.services import installation_key
from console.services.job_runs import JobRun
from deployments.adapters import folder_signatures
from deployments.models import Placement


def sign_placement(run: JobRun, placement: Placement) -> None:
    """Sign the folder that was just placed; kept on the placement's row and beside the repository.

    An installation without a signing key deploys all the same, and its job says so: what protects
    a deploy are the release's own signatures.
    """
    generation, release = placement.deployment.generation, placement.deployment.release
    root, number = Path(placement.node.repository), release.version.number
    try:
        key = installation_key.public_key()
        signature = folder_signatures.sign(
            root / generation.triton_model, number, private_key=installation_key.key_path()
        )
    except Unavailable as error:
        run.log(f"The folder was not signed: {error.message} {error.hint}", level="warning")
        return
    folder_signatures.keep_beside(root, generation.triton_model, number, signature)
    placement.folder_signature, placement.folder_signed_by = signature, key.key_id
    run.log(f"Signed the folder with the installation's key {key.key_id[:12]}….")


def verify_placement(placement: Placement) -> None:
    """Check the folder's signature on its node. Raises Conflict, NotFound when it has none."""
    if placement.folder_signature is None:
        raise NotFound(f"{placement.deployment} carries no signature of its folder.")
    key = InstallationKey.objects.get(keyid=placement.folder_signed_by)
    folder_signatures.verify(
        Path(placement.node.repository) / placement.deployment.generation.triton_model,
        placement.folder_signature,
        public_key_pem=key.public_key_pem,
    )
