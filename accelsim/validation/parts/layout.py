"""How much of the DRAM's bandwidth tiles of a weight tensor reach: row-major or blocked, mapping by mapping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from accelsim.arch import load_arch
from accelsim.compile.machine import dram_system
from accelsim.compile.program import Memory
from accelsim.engine import run
from accelsim.engine.random_programs import ProgramBuilder
from accelsim.validation.model import Part, Progress, ReferenceSet, Row
from accelsim.validation.strips import Strips, draw_strips
from accelsim.validation.words import markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEVICES = (("hbm2_2000", 8), ("ddr4_3200", 1), ("lpddr5_6400", 1))  # preset, channels
MAPPINGS = ("RoBaRaCoBgCh", "RoBaCoRaBgCh", "MOP4CLXOR")
OUTSTANDING = (64, 512, 2048)
TENSORS = ((768, 768), (768, 3072))  # K x N bytes: int8 weights of BERT-Base
TILES = (128, 256)
LAYOUTS = ("row-major", "blocked")

SHARE = "share_of_peak"


@dataclass(frozen=True)
class Setting:
    """A DRAM, how addresses lie in it, and how many transactions its DMA queue has in flight."""

    preset: str
    channels: int
    mapping: str
    channel_xor: bool
    outstanding: int

    @property
    def line(self) -> str:
        """Mapping and xor, in words."""
        return self.mapping + (" + channel_xor" if self.channel_xor else "")

    def share(self, shape: tuple[int, int], tile: int, layout: str) -> float:
        """Bytes that come in a cycle over those of the peak, when one DMA queue reads all tiles of a tensor."""
        overrides = {
            "dram.preset": self.preset,
            "dram.channels": self.channels,
            "dram.mapping": self.mapping,
            "dram.channel_xor": self.channel_xor,
            "dma.outstanding": self.outstanding,
        }
        arch = load_arch("tpu_like", overrides)
        peak = arch.dram_bytes_per_cycle()
        memory = Memory("command", peak, peak, 0, arch.dma.issue_cycles, dram_system(arch, peak))
        builder = ProgramBuilder(memory)
        queue = builder.unit("core0.load0", "load")
        for address, rows, row_bytes, gap in _requests(shape, tile, layout):
            builder.request(queue, row_bytes, address=address, rows=rows, gap=gap)
        return float(shape[0] * shape[1] / (run(builder.program()).total * memory.system.peak_bytes_per_cycle))  # type: ignore[union-attr]


def _requests(shape: tuple[int, int], tile: int, layout: str) -> Iterator[tuple[int, int, int, int]]:
    """Address, rows, bytes of a row and bytes between rows of each tile; k is the inner loop, as in a matmul."""
    depth, width = shape
    for number in range(depth // tile * (width // tile)):
        column, row = divmod(number, depth // tile)
        if layout == "blocked":
            yield number * tile * tile, 1, tile * tile, 0
        else:
            yield row * tile * width + column * tile, tile, tile, width - tile


def rows(fast: bool, progress: Progress) -> Iterator[Row]:
    """Every setting, or those of tpu_like's device with its own number in flight."""
    for preset, channels in DEVICES[:1] if fast else DEVICES:
        progress(f"layout: {preset} x{channels}")
        reference_set = ReferenceSet(
            f"peak of {preset} x{channels}", f"{preset} x{channels}", "tpu_like's way to the DRAM; nothing but reads"
        )
        for setting in _settings(preset, channels, OUTSTANDING[-1:] if fast else OUTSTANDING):
            for shape, tile, layout in product(TENSORS, TILES, LAYOUTS):
                about = f"{shape[0]}x{shape[1]} by {tile}, {layout}"
                case = f"{setting.line}, {setting.outstanding} in flight, {about}"
                yield Row(reference_set, case, SHARE, 1.0, setting.share(shape, tile, layout), None)


def _settings(preset: str, channels: int, outstanding: Sequence[int]) -> list[Setting]:
    xors = (False, True) if channels > 1 else (False,)  # of one channel it makes nothing else
    return [
        Setting(preset, channels, mapping, xor, number)
        for mapping in MAPPINGS
        for xor in xors
        for number in outstanding
    ]


def table(rows: Sequence[Row]) -> str:
    """A line for each device and mapping, shares in % of the four cases (tensors by tiles)."""
    shares = _shares(rows)
    columns = dict.fromkeys((layout, number) for _, _, number, layout in shares)
    lines = dict.fromkeys((device, mapping) for device, mapping, _, _ in shares)
    header = ("device", "mapping", *(f"{layout}, {number} in flight" for layout, number in columns))
    cells = [
        (
            *line,
            *(" ".join(f"{100 * each:.0f}" for each in shares[*line, number, layout]) for layout, number in columns),
        )
        for line in lines
    ]
    cases = ", ".join(f"{k}x{n} by {tile}" for k, n in TENSORS for tile in TILES)
    return f"Share of the peak (%), in each cell for {cases}:\n\n{markdown_table(header, 'l' * len(header), cells)}"


def _shares(rows: Sequence[Row]) -> dict[tuple[str, str, str, str], list[float]]:
    """Shares by device, mapping, number in flight and layout."""
    shares: dict[tuple[str, str, str, str], list[float]] = {}
    for row in rows:
        mapping, flight, _, layout = row.case.split(", ")
        key = row.reference_set.series, mapping, flight.split()[0], layout
        shares.setdefault(key, []).append(float(row.ours))
    return dict(sorted(shares.items(), key=lambda item: LAYOUTS.index(item[0][3])))


def draw(drawing: Figure, rows: Sequence[Row]) -> None:
    """A panel a device, with the most in flight: a dot for each of the four cases."""
    panels: dict[str, dict[str, dict[str, list[float]]]] = {}
    for (device, mapping, flight, layout), shares in _shares(rows).items():
        if int(flight) == OUTSTANDING[-1]:
            panels.setdefault(device, {}).setdefault(mapping, {})[layout] = [100 * each for each in shares]
    strips: dict[str, Strips] = {f"{device}, {OUTSTANDING[-1]} in flight": lines for device, lines in panels.items()}
    draw_strips(drawing, strips, "share of the peak bandwidth (%)")


COMPARES = """\
Not a proof but a measurement: one DMA queue reads all tiles of an int8 weight tensor of BERT-Base, k inside n, by
command and through the same DMA path as a run (tpu_like: 1000 MHz, 100 ns, 4 cycles of issue a tile). The reference is
the peak of the device, the error what is lost of it. **row-major**: the tensor as a framework keeps it, a tile is one
short run a row. **blocked**: tile after tile, a tile is one long run (`dram.weights: blocked`).
"""
DIFFERENCES = """\
**What is in flight comes first.** Eight HBM2 channels move 256 bytes a nanosecond; with 100 ns and more on the way, 64
transactions of 32 bytes reach 8 % whatever the layout, 512 two thirds, 2048 nine tenths. A single channel of DDR4 or
LPDDR5 needs no more than 64.

**Then the layout.** Blocked tiles are sequences and reach 86 to 93 % on HBM2 with any mapping that spreads neighbours
over the pseudo channels. RoBaRaCoBgCh does not: its pseudo channel is a high bit, a tile lies in one of the two, and
half the pins idle. Row-major, a run of 128 bytes at a pitch that is a multiple of 256 touches four of eight channels:
23 to 44 %, with `channel_xor` 45 to 79 %.

**Then the mapping.** MOP4CLXOR with `channel_xor` has the best worst case on HBM2: 70 % row-major, 86 % blocked; the
others fall to 45 % and less. That makes it the default. It is not best everywhere: on one LPDDR5 channel row-major
tiles reach 74 % where the simple mappings reach 82 %, and on one DDR4 channel all are within 2 %.
"""

PART = Part(
    name="layout",
    compares=COMPARES,
    differences=DIFFERENCES,
    left_out=f"all devices but {DEVICES[0][0]}, and all but {OUTSTANDING[-1]} transactions in flight",
    rows=rows,
    draw=draw,
    table=table,
)
