"""What to compute on: machine descriptions in YAML, checked key by key."""

from __future__ import annotations

from accelsim.arch.load import list_archs, load_arch, parse_settings
from accelsim.arch.spec import Arch

__all__ = ["Arch", "list_archs", "load_arch", "parse_settings"]
