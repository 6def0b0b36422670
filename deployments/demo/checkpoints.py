"""The demo's two checkpoints: small, seeded, real PyTorch.

    python -m deployments.demo.checkpoints FOLDER

(a program of its own, since torch is heavy) writes `fraud_detector_v1.pt` (TorchScript, traced),
and `fraud_detector_v2.pt` (a training checkpoint) with its module's source beside it.

Version 2 carries a bug of a kind that gets past every sample-based check: it looks up a risk
segment in a table, and one rare combination of three features, each well within its range, names
a segment that the table does not have. PyTorch raises IndexError, ONNX Runtime refuses the Gather.
"""

from __future__ import annotations

import sys
from pathlib import Path

MODULE_SOURCE = '''\
"""Fraud detector, second generation: a dense score corrected by a learned risk segment."""

import torch
from torch import nn


class FraudDetector(nn.Module):
    def __init__(self, hidden: int = 48, segments: int = 64) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(10, hidden), nn.ReLU(), nn.Dropout(0.2), nn.Linear(hidden, 1)
        )
        self.segment_bias = nn.Embedding(segments, 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        high_amount = features[:, 0] > 9
        new_account = features[:, 1] < -9
        many_countries = features[:, 2] > 9
        # Segment 64 exists in production and not in the table: the bug that the demo rolls back.
        segment = 32 + 32 * (high_amount & new_account & many_countries).long()
        return torch.sigmoid(self.body(features) + self.segment_bias(segment))
'''

# Well within the contract's -10 to 10, and it makes version 2 fail.
FAILING_FEATURES = (9.5, -9.5, 9.5, 0.2, -0.4, 1.1, 0.0, 2.5, -1.5, 0.7)


def write(folder: Path) -> None:
    """Write the three files into `folder`; the same bytes each time."""
    import torch
    from torch import nn

    torch.manual_seed(20)
    first = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid()).eval()
    traced = torch.jit.trace(first, torch.randn(4, 10))  # type: ignore[no-untyped-call]
    traced.save(str(folder / "fraud_detector_v1.pt"))

    namespace: dict[str, object] = {}
    exec(compile(MODULE_SOURCE, "fraud_detector_v2.py", "exec"), namespace)  # noqa: S102
    module_class = namespace["FraudDetector"]
    if not isinstance(module_class, type):
        raise TypeError("the module source defines no class FraudDetector")
    torch.manual_seed(21)
    second = module_class()
    torch.save(
        {"state_dict": second.state_dict(), "epoch": 12}, str(folder / "fraud_detector_v2.pt")
    )
    (folder / "fraud_detector_v2.py").write_text(MODULE_SOURCE, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
