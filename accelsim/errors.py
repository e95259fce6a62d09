"""The two ways a run can fail: the user's mistake, and ours."""

from __future__ import annotations

_UNSET = object()


class InputError(Exception):
    """A mistake in what the user gave: a file, a key, an option (exit code 2).

    The message is one line that says *what* is wrong, *where* it stands (``file:line`` or a dotted path),
    the *value* that was found and the *remedy*.
    """

    def __init__(self, what: str, *, where: str | None = None, value: object = _UNSET, remedy: str | None = None):
        self.what = what
        self.where = where
        self.value = None if value is _UNSET else value
        self.remedy = remedy
        parts = [f"{where}: {what}" if where else what]
        if value is not _UNSET:
            parts.append(f"got {_shown(value)}")
        if remedy:
            parts.append(remedy)
        super().__init__("; ".join(parts))


class InternalError(Exception):
    """A broken law or invariant: accelsim's own fault, never the user's (exit code 1)."""


def _shown(value: object, limit: int = 80) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
