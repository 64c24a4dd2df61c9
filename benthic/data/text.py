"""Plain text files: one document a line."""

from __future__ import annotations

import gzip
from pathlib import Path

from benthic.base.errors import InvalidInput
from benthic.data.formats import neighbor


def read_text(path: str | Path, *, encoding: str = "utf-8") -> list[str]:
    """The lines of a text file (.txt, also .gz), each a document; an empty line is an empty document.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "notes.txt"
    ...     _ = file.write_text("the first\\nthe second\\n")
    ...     read_text(file)
    ['the first', 'the second']
    """
    place = Path(path)
    if not place.exists():
        raise InvalidInput(f"read_text: there is no file {str(place)!r}{neighbor(place)}")
    if place.is_dir():
        raise InvalidInput(f"read_text: {place} is a folder; pass a text file with one document a line")
    try:
        data = gzip.decompress(place.read_bytes()) if place.suffix.lower() == ".gz" else place.read_bytes()
        text = data.decode(encoding)
    except (gzip.BadGzipFile, EOFError) as error:
        raise InvalidInput(f"read_text: {place} is not a whole gzip file ({error})") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"read_text: {place} is not text in {encoding} (byte {error.start}); pass another encoding, such as latin-1"
        ) from error
    except LookupError as error:
        raise InvalidInput(f"read_text: there is no encoding {encoding!r}; utf-8 and latin-1 are common") from error
    lines = text.removeprefix("\ufeff").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if not any(line.strip() for line in lines):
        raise InvalidInput(f"read_text: {place} has no words; pass a text file with one document a line")
    return [line.removesuffix("\r") for line in lines]
