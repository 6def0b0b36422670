"""Where a gateway's token lies: a file or a variable that is named, never the token itself.

Whoever may register a gateway chooses where it is sent, so only places that are set aside for such
tokens are read; else any file of this machine could be sent anywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from console.errors import Invalid, Unavailable

MOUNTED = (Path("/run/secrets"), Path("/var/run/secrets"))
_VARIABLE = re.compile(r"COVENANT_GATEWAY_[A-Z0-9_]{1,60}\Z")


def check_reference(options: Mapping[str, Any], own: Path) -> None:
    """Refuse a reference that leads elsewhere than to gateways' secrets. Raises Invalid.

    `own` is this installation's folder for them.
    """
    variable, file = options.get("token_env"), options.get("token_file")
    if variable and file:
        raise Invalid("Name a file or a variable for the token, not both.", code="invalid_option")
    if variable and not _VARIABLE.match(str(variable)):
        raise Invalid(
            f"The variable {variable} is not set aside for gateways.",
            code="invalid_option",
            hint="Use a variable whose name begins with COVENANT_GATEWAY_.",
        )
    if file and not _is_in(Path(str(file)), (own, *MOUNTED)):
        raise Invalid(
            f"The file {file} is not among the secrets of gateways.",
            code="invalid_option",
            hint=f"Put the token into a file under {own}, or mount it under {MOUNTED[0]}.",
        )


def read_token(options: Mapping[str, Any], own: Path) -> str:
    """The token that the options refer to, as it is now; "" when they name none.

    Raises Unavailable (retryable) when it is not there.
    """
    check_reference(options, own)
    variable, file = options.get("token_env"), options.get("token_file")
    try:
        token = os.environ[str(variable)] if variable else ""
        token = Path(str(file)).read_text(encoding="utf-8") if file else token
    except (KeyError, OSError, UnicodeDecodeError) as fault:
        raise Unavailable(
            f"The gateway's token is not in {variable or file}.",
            code="gateway_token_missing",
            hint="Put it there; it is looked for again by itself.",
        ) from fault
    return token.strip()


def _is_in(file: Path, folders: tuple[Path, ...]) -> bool:
    resolved = file.resolve()
    return any(resolved.is_relative_to(folder.resolve()) for folder in folders)
