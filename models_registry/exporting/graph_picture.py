"""The graph as a picture that a person can take in: at most some sixty blocks, in layers.

Operators that only follow each other become one block; where that is not enough, what lies between
two places through which all data passes; then runs of equal blocks; at last equal slices.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from models_registry.exporting.graph_shapes import ShapedNode
from models_registry.exporting.protocol import Json, TensorSpec
from models_registry.rules import flops

FEW: Final = 24
TARGET: Final = 40
MOST: Final = 60
_LONGEST_PERIOD: Final = 12
_WIDE: Final = 8
_MOST_NAMES: Final = 16


@dataclass
class Block:
    """Some operators of the graph, in its order; `repeated` times the same."""

    nodes: list[int]
    repeated: int = 1


def picture(
    nodes: Sequence[ShapedNode], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> Json:
    """{"blocks": [{"id", "kind", "label", "operators", "count", "repeated", "parameters", "flops",
    "shape", "row", "column"}], "edges": [[from, to]], "rows", "columns", "operators"}.

    `kind` is input, operators or output; `row` is how far from the inputs a block is, `column` its
    place there; `shape` what the block gives at batch 1; `operators` how many there are in all.
    What depends on no input (weights that are computed) is not drawn.
    """
    nodes = _alive(nodes, inputs)
    writer = {name: number for number, node in enumerate(nodes) for name in node.writes}
    reads = [
        {writer[name] for name in node.reads if name in writer and writer[name] != number}
        for number, node in enumerate(nodes)
    ]
    blocks = _chains(reads)
    if len(blocks) > TARGET:
        blocks = _between_cuts(blocks, reads)
    if len(blocks) > FEW:
        blocks = _repeats(blocks, nodes)
    if len(blocks) > MOST:
        blocks = _slices(blocks)
    return _drawn(blocks, nodes, reads, writer, inputs, outputs)


def _alive(nodes: Sequence[ShapedNode], inputs: Sequence[TensorSpec]) -> list[ShapedNode]:
    reached = {spec.name for spec in inputs}
    alive = []
    for node in nodes:
        if reached.intersection(node.reads):
            reached.update(node.writes)
            alive.append(node)
    return alive or list(nodes)


def _chains(reads: Sequence[set[int]]) -> list[Block]:
    """One block for each run of operators with one reader that reads nothing else."""
    readers: list[set[int]] = [set() for _ in reads]
    for number, sources in enumerate(reads):
        for source in sources:
            readers[source].add(number)
    block_of: dict[int, Block] = {}
    blocks: list[Block] = []
    for number, sources in enumerate(reads):
        only = next(iter(sources)) if len(sources) == 1 else None
        if only is not None and only < number and len(readers[only]) == 1:
            block = block_of[only]
        else:
            block = Block([])
            blocks.append(block)
        block.nodes.append(number)
        block_of[number] = block
    return blocks


def _between_cuts(blocks: list[Block], reads: Sequence[set[int]]) -> list[Block]:
    """Join what lies between two places where only one value is still needed.

    Values that many blocks read (a mask, a position) do not count: they would hide every cut.
    """
    owner = _owners(blocks)
    last_reader: dict[int, int] = {}
    uses: Counter[int] = Counter()
    for number, block in enumerate(blocks):
        for source in {owner[one] for node in block.nodes for one in reads[node]} - {number}:
            last_reader[source] = max(last_reader.get(source, 0), number)
            uses[source] += 1
    parts: list[list[Block]] = []
    current: list[Block] = []
    still_read: set[int] = set()
    for number, block in enumerate(blocks):
        current.append(block)
        still_read = {one for one in still_read if last_reader[one] > number}
        if last_reader.get(number, -1) > number and uses[number] < _WIDE:
            still_read.add(number)
        if still_read <= {number}:
            parts.append(current)
            current = []
    if current:
        parts.append(current)
    # The longest parts first, and all of one length alike, until few enough are left.
    for longest in sorted({len(part) for part in parts}, reverse=True):
        kept = [part if len(part) < longest else [_joined(part)] for part in parts]
        if sum(len(part) for part in kept) <= TARGET:
            break
    return [block for part in kept for block in part]


def _joined(blocks: Sequence[Block]) -> Block:
    return Block(sorted(node for block in blocks for node in block.nodes))


def _repeats(blocks: list[Block], nodes: Sequence[ShapedNode]) -> list[Block]:
    """Fold runs of equal groups of blocks, the shortest period first."""
    signs = [tuple(nodes[node].operation.kind for node in block.nodes) for block in blocks]
    folded: list[Block] = []
    at = 0
    while at < len(blocks):
        period, times = _period(signs, at)
        if times < 2:
            folded.append(blocks[at])
            at += 1
            continue
        for step in range(period):
            same = [
                node for turn in range(times) for node in blocks[at + turn * period + step].nodes
            ]
            folded.append(Block(sorted(same), times))
        at += period * times
    return folded


def _period(signs: Sequence[tuple[str, ...]], at: int) -> tuple[int, int]:
    best = (1, 1)
    for period in range(1, _LONGEST_PERIOD + 1):
        times = 1
        while signs[at : at + period] == signs[at + times * period : at + (times + 1) * period]:
            times += 1
            if at + times * period >= len(signs):
                break
        if times > 1 and period * times > best[0] * best[1]:
            best = (period, times)
    return best


def _slices(blocks: list[Block]) -> list[Block]:
    """At most `MOST` blocks, each with as many of the given ones."""
    size = -(-len(blocks) // MOST)
    return [_joined(blocks[first : first + size]) for first in range(0, len(blocks), size)]


def _owners(blocks: Sequence[Block]) -> dict[int, int]:
    return {node: number for number, block in enumerate(blocks) for node in block.nodes}


def _drawn(
    blocks: Sequence[Block],
    nodes: Sequence[ShapedNode],
    reads: Sequence[set[int]],
    writer: dict[str, int],
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
) -> Json:
    owner = _owners(blocks)
    told = [_told(block, nodes) for block in blocks]
    edges = {
        (owner[source], owner[node])
        for node, sources in enumerate(reads)
        for source in sources
        # Blocks are in the graph's order; what goes back belongs to the next of some equal groups.
        if owner[source] < owner[node]
    }
    ends: list[tuple[str, TensorSpec, set[tuple[int, int]]]] = []
    number = len(blocks)
    for spec in inputs[:_MOST_NAMES]:
        users = {owner[one] for one, node in enumerate(nodes) if spec.name in node.reads}
        ends.append(("input", spec, {(number, user) for user in users}))
        number += 1
    for spec in outputs[:_MOST_NAMES]:
        source = writer.get(spec.name)
        ends.append(("output", spec, {(owner[source], number)} if source is not None else set()))
        number += 1
    for kind, spec, more in ends:
        edges |= more
        told.append({"kind": kind, "label": spec.name[:200], "shape": _shape(spec)})
    rows = _rows(number, edges, first=range(len(blocks), len(blocks) + len(inputs[:_MOST_NAMES])))
    columns = _columns(rows, edges)
    for one, block in enumerate(told):
        block |= {"id": one, "row": rows[one], "column": columns[one]}
    return {
        "blocks": told,
        "edges": sorted([a, b] for a, b in edges),
        "rows": max(rows, default=-1) + 1,
        "columns": max(columns, default=-1) + 1,
        "operators": len(nodes),
    }


def _shape(spec: TensorSpec) -> list[int | str]:
    return [name or size for size, name in zip(spec.shape, spec.dims, strict=True)]


def _told(block: Block, nodes: Sequence[ShapedNode]) -> Json:
    own = [nodes[number] for number in block.nodes]
    counted = flops.estimate(node.operation for node in own)
    shapes = own[-1].operation.outputs
    kinds = Counter(node.operation.kind for node in own)
    return {
        "kind": "operators",
        "label": _label([node.operation.kind for node in own], block.repeated, counted.by_kind),
        "operators": dict(kinds.most_common()),
        "count": len(own),
        "repeated": block.repeated,
        "parameters": sum(node.parameters for node in own),
        "flops": counted.total,
        "shape": list(shapes[0]) if shapes and shapes[0] is not None else None,
    }


def _label(kinds: Sequence[str], repeated: int, work: Mapping[str, int]) -> str:
    """Conv → Relu for few, Conv ×4 · Relu ×5 for many: those first that take the most work."""
    once = list(kinds[: max(1, len(kinds) // repeated)])
    if len(once) <= 3:
        return " → ".join(once)
    counts = Counter(once)
    first = sorted(counts, key=lambda kind: (-work.get(kind, 0), -counts[kind]))[:3]
    return " · ".join(f"{kind} ×{counts[kind]}" if counts[kind] > 1 else kind for kind in first)


def _rows(count: int, edges: Iterable[tuple[int, int]], first: Iterable[int]) -> list[int]:
    """The longest way from a block without predecessor (Sugiyama et al., 1981, longest path).

    What reads no input, a constant that is computed, stands just before its first reader.
    """
    after: dict[int, list[int]] = defaultdict(list)
    waits: Counter[int] = Counter()
    for source, target in edges:
        after[source].append(target)
        waits[target] += 1
    rows = [0] * count
    ready = [one for one in range(count) if not waits[one]]
    order = []
    while ready:
        one = ready.pop()
        order.append(one)
        for target in after[one]:
            rows[target] = max(rows[target], rows[one] + 1)
            waits[target] -= 1
            if not waits[target]:
                ready.append(target)
    kept = set(first)
    starts = set(range(count)) - {target for _, target in edges} - kept
    for one in starts:
        if after[one]:
            rows[one] = max(0, min(rows[target] for target in after[one]) - 1)
    return rows


def _columns(rows: Sequence[int], edges: Iterable[tuple[int, int]]) -> list[int]:
    """A place in its row for each block, near the mean place of what it reads (barycentre)."""
    before: dict[int, list[int]] = defaultdict(list)
    for source, target in edges:
        before[target].append(source)
    columns = [0] * len(rows)
    by_row: dict[int, list[int]] = defaultdict(list)
    for one, row in enumerate(rows):
        by_row[row].append(one)
    for row in sorted(by_row):

        def mean(one: int) -> float:
            places = [columns[source] for source in before[one]]
            return sum(places) / len(places) if places else float(one)

        for place, one in enumerate(sorted(by_row[row], key=mean)):
            columns[one] = place
    return columns
