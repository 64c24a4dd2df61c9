"""Images: IDX files and folders of pictures, as (n, c, h, w) between 0 and 1."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput

_IDX_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"}


def read_idx(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """An IDX file, and the labels in the file beside it (``...labels-idx1...`` for ``...images-idx3...``).

    Bytes become numbers between 0 and 1, and pictures (n, h, w) become (n, 1, h, w), both in float32.
    """
    X = parse_idx(path)
    labels = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    y = None
    if labels != path and labels.is_file():
        y = parse_idx(labels).astype(np.int64)
        if len(y) != len(X):
            raise InvalidInput(f"read: {path} has {len(X)} pictures, but {labels} has {len(y)} labels")
    X = X.astype(np.float32) / np.float32(255) if X.dtype == np.uint8 else X.astype(np.float64)
    if X.ndim == 1:
        X = X[:, None]
    return (X[:, None] if X.ndim == 3 else X), y


def parse_idx(path: Path) -> np.ndarray:
    """The array in an IDX file as it is stored: two zeros, type, rank, sizes, numbers, all big-endian."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInput(f"read: {path} is not a whole gzip file ({error})") from error
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _IDX_TYPES or not data[3]:
        raise InvalidInput(f"read: {path} does not begin like an IDX file (two zero bytes, a type, a rank)")
    dtype, rank = np.dtype(_IDX_TYPES[data[2]]), data[3]
    shape = tuple(np.frombuffer(data, ">u4", rank, 4).tolist()) if len(data) >= 4 + 4 * rank else ()
    begin = 4 + 4 * rank
    if not shape or len(data) - begin != int(np.prod(shape)) * dtype.itemsize:
        raise InvalidInput(f"read: {path} is {len(data)} bytes long, which does not fit its sizes {shape}")
    return np.frombuffer(data, dtype, offset=begin).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def read_folder(folder: Path) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """The pictures in a folder, or in one folder for each class.

    Returns X (n, c, h, w) float32 between 0 and 1, with c = 1 if all are gray and 3 else; the number of
    the class of each, or None; and the names of the classes.
    """
    flat = _pictures(folder)
    classes = [sub for sub in sorted(folder.iterdir()) if sub.is_dir() and _pictures(sub)]
    if flat and classes:
        raise InvalidInput(f"read: {folder} has pictures both in itself and in folders; use one way only")
    if not flat and not classes:
        kinds = ", ".join(sorted(_SUFFIXES))
        raise InvalidInput(f"read: {folder} has no pictures ({kinds}), neither in itself nor in its folders")
    if flat:
        return _stack(flat), None, ()
    paths = [(path, number) for number, sub in enumerate(classes) for path in _pictures(sub)]
    y = np.array([number for _, number in paths], dtype=np.int64)
    return _stack([path for path, _ in paths]), y, tuple(sub.name for sub in classes)


def _pictures(folder: Path) -> list[Path]:
    files = (path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES and path.is_file())
    return sorted(path for path in files if not path.name.startswith("."))


def _stack(paths: list[Path]) -> np.ndarray:
    """Pictures of one size, (n, c, h, w)."""
    pictures = [_open(path) for path in paths]
    for path, picture in zip(paths, pictures, strict=True):
        if picture.shape[:2] != pictures[0].shape[:2]:
            sizes = [f"{p.shape[1]}x{p.shape[0]}" for p in (picture, pictures[0])]
            raise InvalidInput(
                f"read: {path} is {sizes[0]}, but {paths[0].name} is {sizes[1]}; resize the pictures to one size"
            )
    if any(picture.ndim == 3 for picture in pictures):
        pictures = [p if p.ndim == 3 else np.repeat(p[:, :, None], 3, 2) for p in pictures]
    X = np.stack(pictures)  # (n, h, w) or (n, h, w, 3)
    return X[:, None] if X.ndim == 3 else np.ascontiguousarray(X.transpose(0, 3, 1, 2))


def _open(path: Path) -> np.ndarray:
    """One picture, (h, w) if it is gray and (h, w, 3) else, between 0 and 1."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return _floats(image)
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        raise InvalidInput(f"read: {path} is not a whole picture ({error}); remove or replace it") from error


def _floats(image: Any) -> np.ndarray:
    if image.mode.startswith("I;16") or image.mode == "I":
        return np.asarray(image).astype(np.float32) / np.float32(65535)
    gray = image.mode in ("1", "L", "LA")
    return np.asarray(image.convert("L" if gray else "RGB")).astype(np.float32) / np.float32(255)
