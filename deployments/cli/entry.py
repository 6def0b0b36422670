"""Where the command `covenant` starts: verifying needs none of what the other commands need."""

from __future__ import annotations

import sys

from deployments.cli import verifying

OPTIONS = frozenset({"--json"})


def main() -> None:
    """`covenant verify …` by itself, everything else by the whole command line."""
    given = [one for one in sys.argv[1:] if one not in OPTIONS]
    if given[:1] == ["verify"]:
        arguments = given[1:] + [one for one in sys.argv[1:] if one in OPTIONS]
        sys.exit(verifying.main(arguments))
    # HTTP and tables are not installed where somebody only verifies.
    try:
        from deployments.cli.main import main as whole
    except ModuleNotFoundError as missing:
        sys.exit(
            f"covenant: {missing.name} is not installed here; `covenant verify` works without it.\n"
            "  The other commands need an environment with requirements.txt."
        )
    whole()


if __name__ == "__main__":
    main()
