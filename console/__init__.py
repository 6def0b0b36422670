"""The floor: what every other part stands on."""

from __future__ import annotations

import os

# gRPC's handlers around fork break a child between fork and exec (it aborts, seen in 1 of 60
# starts). No process of ours uses gRPC in a forked child, so they are off; gRPC reads this once.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
