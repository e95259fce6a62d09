"""Where the files that come with accelsim lie: in the wheel, or at the top of a source checkout."""

from __future__ import annotations

from pathlib import Path

from accelsim.errors import InternalError

_PACKAGE = Path(__file__).resolve().parent


def shipped(folder: str) -> Path:
    """Return the folder of shipped files `folder` ("arch" or "traces").

    An installed wheel holds it as accelsim/_data/<folder>; a source checkout or editable install as <folder> beside
    the package. Raises InternalError when the installation has neither.
    """
    for place in (_PACKAGE / "_data" / folder, _PACKAGE.parent / folder):
        if place.is_dir():
            return place
    raise InternalError(f"this installation of accelsim has no shipped {folder!r} files beside {_PACKAGE}")
