"""Which kind of file a path is."""

from __future__ import annotations

from pathlib import Path

from benthic.base.errors import InvalidInput, nearest

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npy": "npy",
    ".npz": "npz",
    ".idx": "idx",
    ".txt": "text",
}
_WHAT_WORKS = (
    "CSV or TSV (.csv, .tsv, also .gz), Parquet, NPY, NPZ, IDX (also .gz), text (.txt, also .gz) or a folder of images"
)


def file_kind(path: Path) -> str:
    """``csv``, ``parquet``, ``npy``, ``npz``, ``idx``, ``text`` or ``images``.

    The suffix decides; IDX files, which seldom have one, are known by ``-idx`` or ``.idx`` in their name.
    """
    if not path.exists():
        raise InvalidInput(f"read: there is no file {str(path)!r}{neighbor(path)}")
    if path.is_dir():
        return "images"
    if not path.stat().st_size:
        raise InvalidInput(f"read: {path} is empty; pass {_WHAT_WORKS}")
    name = path.name.lower().removesuffix(".gz")
    kind = _SUFFIXES.get(Path(name).suffix)
    if kind is None and any(mark in name for mark in ("-idx", ".idx", "_idx")):
        kind = "idx"
    if kind is None or (kind not in ("csv", "idx", "text") and path.suffix.lower() == ".gz"):
        raise InvalidInput(f"read: {path} is of an unknown kind; pass {_WHAT_WORKS}")
    return kind


def neighbor(path: Path) -> str:
    """A hint at the file of a similar name in the same folder."""
    folder = path.parent
    if not folder.is_dir():
        return f"; there is no folder {str(folder)!r} either"
    return nearest(path.name, [other.name for other in folder.iterdir()])
