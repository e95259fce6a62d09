"""Time the matmuls of one BERT-Base layer (sequence length 128) in SCALE-Sim and in accelsim, side by side.

    python benchmarks/peers.py

SCALE-Sim is installed from the package index into a virtual environment of its own in a temporary folder. Each
simulator runs the same 30 matmuls on a 128x128 weight-stationary array in a fresh process, with its imports counted.
accelsim runs once before it is timed, so that its kernels are compiled, as they are from the second run on.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

from measured import Cost, print_markdown, run_measured

SCALESIM = ("scalesim==3.0.0", "numpy<2.3")
ARRAY = 128
BUFFERS_KIB = (512, 2560, 512)  # activations, weights, outputs: each holds the largest tensor of its kind here

SCALESIM_CONFIG = f"""
[general]
run_name = bert_layer
[architecture_presets]
ArrayHeight = {ARRAY}
ArrayWidth = {ARRAY}
IfmapSramSzkB = {BUFFERS_KIB[0]}
FilterSramSzkB = {BUFFERS_KIB[1]}
OfmapSramSzkB = {BUFFERS_KIB[2]}
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = ws
ReadRequestBuffer = 512
WriteRequestBuffer = 512
[layout]
IfmapCustomLayout = False
FilterCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""
SCALESIM_SCRIPT = """
from scalesim.scale_sim import scalesim
simulation = scalesim(save_disk_space=True, verbose=False, config="scale.cfg", topology="layer.csv",
                      layout="layout.csv", input_type_gemm=True)
simulation.run_scale(top_path="out")
"""


def bert_base_layer(
    seq: int = 128, hidden: int = 768, heads: int = 12, ffn: int = 3072
) -> list[tuple[str, int, int, int]]:
    """Name, M, N, K of each matmul of an encoder layer, a head at a time."""
    head = hidden // heads
    projections = [(name, seq, hidden, hidden) for name in ("query", "key", "value")]
    scores = [(f"scores{index}", seq, seq, head) for index in range(heads)]
    context = [(f"context{index}", seq, head, seq) for index in range(heads)]
    rest = [("output", seq, hidden, hidden), ("ffn_up", seq, ffn, hidden), ("ffn_down", seq, hidden, ffn)]
    return [*projections, *scores, *context, *rest]


def write_matmuls(path: Path) -> None:
    """The list as both simulators read it: SCALE-Sim needs the comma at the end of each line."""
    lines = [f"{name}, {m}, {n}, {k}," for name, m, n, k in bert_base_layer()]
    path.write_text("\n".join(["Layer, M, N, K,", *lines]) + "\n")


def install_scalesim(folder: Path) -> Path:
    """A virtual environment with SCALE-Sim in it; returns its Python."""
    print(f"installing {' '.join(SCALESIM)} into a temporary environment ...", file=sys.stderr)
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run_measured([str(python), "-m", "pip", "install", "--quiet", *SCALESIM])
    return python


def run_scalesim(python: Path, folder: Path) -> tuple[Cost, int]:
    """Cost and total cycles of SCALE-Sim; its report gives the index of the last cycle, so one is added a matmul."""
    (folder / "scale.cfg").write_text(SCALESIM_CONFIG)
    (folder / "run.py").write_text(SCALESIM_SCRIPT)
    names = [name for name, *_ in bert_base_layer()]
    (folder / "layout.csv").write_text(
        "\n".join(["Layer," + ",".join("x" * 12) + ","] + [f"{n}," + "1," * 12 for n in names])
    )
    cost, _ = run_measured([str(python), "run.py"], folder)
    with (folder / "out" / "bert_layer" / "COMPUTE_REPORT.csv").open() as report:
        lines = [{key.strip(): value for key, value in row.items() if key} for row in csv.DictReader(report)]
    return cost, sum(int(float(line["Total Cycles"])) + 1 for line in lines)


def run_accelsim(arch: str, folder: Path) -> tuple[Cost, int]:
    """Cost and total cycles of accelsim, second run."""
    command = [
        sys.executable,
        "-m",
        "accelsim",
        "gemm",
        "--csv",
        str(folder / "layer.csv"),
        "--arch",
        arch,
        "--json",
        "-",
    ]
    run_measured(command)
    cost, output = run_measured(command)
    return cost, int(json.loads(output)["total"]["cycles"])


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_matmuls(folder / "layer.csv")
        python = install_scalesim(folder / "venv")
        print_markdown(("simulator", "CPU seconds", "peak MB", "cycles", "times faster"), rows(python, folder))


def rows(python: Path, folder: Path) -> Iterator[tuple[str, ...]]:
    """SCALE-Sim first, then accelsim on each machine, compared with it."""
    peer, peer_cycles = run_scalesim(python, folder)
    yield _row("SCALE-Sim 3.0.0, serial folds, no DRAM timing", peer, peer_cycles, peer)
    for arch in ("scalesim_like", "tpu_like"):
        cost, cycles = run_accelsim(arch, folder)
        yield _row(f"accelsim, {arch}", cost, cycles, peer)


def _row(label: str, cost: Cost, cycles: int, peer: Cost) -> tuple[str, ...]:
    ratio = peer.cpu_seconds / cost.cpu_seconds
    return label, f"{cost.cpu_seconds:.2f}", f"{cost.peak_mb:.0f}", f"{cycles:,}", f"{ratio:.1f}"


if __name__ == "__main__":
    main()
