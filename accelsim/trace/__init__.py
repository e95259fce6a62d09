"""Traces: what to compute, with no word of hardware. Read, write, check, build and slice them."""

from __future__ import annotations

from accelsim.trace.builder import TraceBuilder, gemm_trace, whole
from accelsim.trace.format import dumps, loads, read_trace, trace_name, validated, write_trace
from accelsim.trace.matmul import Layout, MatmulView, is_transposed, matmul_attributes, matmul_view
from accelsim.trace.model import FORMAT, Op, Operand, Tensor, Trace
from accelsim.trace.slice import parse_layers, slice_layers

__all__ = [
    "FORMAT", "Layout", "MatmulView", "Op", "Operand", "Tensor", "Trace", "TraceBuilder", "dumps", "gemm_trace",
    "is_transposed", "loads", "matmul_attributes", "matmul_view", "parse_layers", "read_trace", "slice_layers",
    "trace_name", "validated", "whole", "write_trace",
]  # fmt: skip
