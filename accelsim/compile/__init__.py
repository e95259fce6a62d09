"""Turns a trace and a machine into a Program: fuse, place, map, lower. All choices are made here and can be printed."""

from accelsim.compile.driver import compile_program
from accelsim.compile.mapping_file import MappingEntry, dump_mapping, read_mapping

__all__ = ["MappingEntry", "compile_program", "dump_mapping", "read_mapping"]
