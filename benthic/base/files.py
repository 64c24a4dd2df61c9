"""Files that are either whole or absent: temp, fsync, rename, directory fsync."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_SUFFIX = ".partial"


def write_atomic(path: str | Path, data: bytes) -> Path:
    """Replace ``path`` by ``data`` so that a crash leaves the old file or the new one, never a part."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temp = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temp).chmod(0o666 & ~_umask())
        Path(temp).replace(path)
    except BaseException:
        Path(temp).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    return path


def remove_stale(folder: Path) -> None:
    """Delete what a killed writer left behind."""
    for left in folder.glob(f".*{_SUFFIX}"):
        left.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
