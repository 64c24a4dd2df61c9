"""Processes made by a fork: their arithmetic may wait forever for threads that only the first process has."""

from __future__ import annotations

import os
import signal
import threading
import time

_PATIENCE = 5.0  # seconds that a product of a millisecond may take before it is believed to wait forever
_SIZE = 512  # rows of the matrices of that product, enough for torch to share it among threads

_state = "first"  # or "forked", and when that has been looked into "sound" or "lost"


def _forked() -> None:
    global _state
    _state = "forked"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def refuse_lost_threads() -> None:
    """Raise an error where torch's arithmetic would wait forever, which is found out once in a forked process.

    A fork copies one thread alone. If that had shared arithmetic with others, it waits for them in the copy, as plain
    torch does; a thread that begins in the copy has helpers of its own.
    """
    global _state
    if _state in ("first", "sound") or threading.current_thread() is not threading.main_thread():
        return
    import torch

    if torch.get_num_threads() == 1:
        return
    if _state == "forked":
        _state = "sound" if _arithmetic_ends() else "lost"
    if _state == "lost":
        raise RuntimeError(
            "this process was forked from one that had shared arithmetic among threads, for which torch would now wait "
            "forever; start processes with multiprocessing.get_context('spawn') or 'forkserver', or call "
            "torch.set_num_threads(1) first here"
        )


def _arithmetic_ends() -> bool:
    """Whether a copy of this process, as it stands, comes to the end of a small piece of work."""
    copy = os.fork()
    if not copy:
        _work_and_leave()
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if os.waitpid(copy, os.WNOHANG)[0]:
            return True
        time.sleep(0.002)
    os.kill(copy, signal.SIGKILL)
    os.waitpid(copy, 0)
    return False


def _work_and_leave() -> None:
    import torch

    try:
        side = torch.ones(_SIZE, _SIZE)
        (side @ side).exp_()
    finally:
        os._exit(0)
