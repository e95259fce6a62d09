"""Request streams of the DRAM oracle: the recipes' makers are those of `accelsim verify dram`."""

from accelsim.validation.dram_streams import Stream, sha256_16
from accelsim.validation.dram_streams import make_stream as make

__all__ = ["Stream", "make", "sha256_16"]
