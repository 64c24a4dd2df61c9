"""What went wrong, as one line and an exit code."""

from __future__ import annotations

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


class Usage(ValueError):
    """The command was asked for something that does not exist; the message says what does."""


def one_line(error: BaseException) -> str:
    """The message of an error on one line; the type is named where the message does not explain itself.

    >>> one_line(ValueError("X has\\n  3 NaN"))
    'X has 3 NaN'
    """
    if isinstance(error, KeyboardInterrupt):
        return " ".join(str(error).split()) or "interrupted"
    # str() of a KeyError is the repr of its message
    text = error.args[0] if isinstance(error, KeyError) and error.args else str(error)
    text = " ".join(str(text).split())
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, (ValueError, OSError, ImportError)) or type(error).__module__.startswith("benthic"):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text} (BENTHIC_DEBUG=1 shows where)"
