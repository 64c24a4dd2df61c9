"""Model files: one safetensors file with a tagged tree and a checksum; never pickle."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from benthic.base.decoder import Decoder
from benthic.base.errors import ModelFileError, brief
from benthic.base.files import write_atomic
from benthic.base.settings import is_whole
from benthic.base.tree import Encoder

FORMAT = 1
_KEY = "benthic"
_LONGEST_HEADER = 100_000_000  # safetensors reads no longer one

# What reading a file can raise where the file is none that save wrote.
MALFORMED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    LookupError,
    MemoryError,
    RuntimeError,  # of torch, and of a recursion without end
    StopIteration,
    TypeError,
    ValueError,
)


def save(value: Any, path: str | Path, *, leave_out: Collection[str] = ()) -> Path:
    """Write an estimator, or a scikit-learn pipeline of them, to one file.

    leave_out: parameters that hold callables or your own modules; ``load`` is then given them again.
    """
    return save_tree(path, value, leave_out=leave_out)


def load(path: str | Path, modules: dict[str, Any] | None = None) -> Any:
    """Read what ``save`` wrote.

    modules: the parameters that were left out, by name.
    """
    return load_tree(path, modules)


def save_tree(path: str | Path, value: Any, *, leave_out: Collection[str] = ()) -> Path:
    """Write any value of plain parts, arrays, records and estimators; the old file stays until the new is whole."""
    return write_atomic(path, dumps(value, leave_out))


def dumps(value: Any, leave_out: Collection[str] = ()) -> bytes:
    """The bytes of a model file."""
    encoder = Encoder(leave_out)
    tree = json.dumps(encoder.encode(value), separators=(",", ":"), allow_nan=False)
    # safetensors lays tensors out in its own order; the checksum goes by name
    crc = _checksum(tree, encoder.arrays)
    meta = json.dumps({"format": FORMAT, "crc": crc, "tree": tree}, separators=(",", ":"))
    return bytes(save_arrays(encoder.arrays, metadata={_KEY: meta}))


def load_tree(path: str | Path, supplied: dict[str, Any] | None = None) -> Any:
    """Read a file written by ``save_tree``; anything wrong with it is one ``ModelFileError``."""
    path = Path(path)
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder; a model file is one .safetensors file")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    data = path.read_bytes()
    meta = _metadata(data, path)
    try:
        arrays = load_arrays(data)
    except (SafetensorError, *MALFORMED) as error:
        raise ModelFileError(f"{path} is truncated or damaged ({brief(error)}); restore it from a copy") from error
    if _checksum(meta["tree"], arrays) != meta["crc"]:
        raise ModelFileError(f"{path} is damaged: its checksum does not match; restore it from a copy")
    try:
        return Decoder(arrays, supplied).decode(json.loads(meta["tree"], parse_constant=_no_number))
    except MALFORMED as error:
        raise ModelFileError(f"{path} cannot be read: {brief(error)}") from error


def _metadata(data: bytes, path: Path) -> dict[str, Any]:
    foreign = ModelFileError(f"{path} is not a Benthic model file; load reads what save wrote")
    if len(data) < 8:
        raise ModelFileError(f"{path} is truncated: it has only {len(data)} bytes")
    length = int.from_bytes(data[:8], "little")
    if data[8:9] != b"{" or length > _LONGEST_HEADER:
        raise foreign
    if length > len(data) - 8:
        raise ModelFileError(f"{path} is truncated: its header promises more bytes than there are")
    try:
        text = json.loads(data[8 : 8 + length], parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its header cannot be read; restore it from a copy") from error
    try:
        meta = json.loads(text["__metadata__"][_KEY], parse_constant=_no_number)
        version, crc, tree = (meta.get(key) for key in ("format", "crc", "tree"))
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise foreign from error
    if not is_whole(version, 1):
        raise foreign
    if version > FORMAT:
        raise ModelFileError(
            f"{path} was written by a newer Benthic (format {version}; this one reads up to {FORMAT}); upgrade Benthic"
        )
    if not isinstance(tree, str) or not is_whole(crc):
        raise foreign
    return dict(meta)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number that save writes")


def _checksum(tree: str, arrays: dict[str, np.ndarray]) -> int:
    crc = zlib.crc32(tree.encode())
    for name in sorted(arrays):
        array = arrays[name]
        crc = zlib.crc32(f"{name}{array.dtype.str}{array.shape}".encode(), crc)
        crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, crc)
    return crc
