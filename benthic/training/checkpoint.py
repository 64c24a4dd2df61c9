"""Checkpoints: everything a run needs to go on as if it had never stopped, in files that are whole or absent."""

from __future__ import annotations

import errno
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benthic.base.errors import InvalidInput, ModelFileError
from benthic.base.files import remove_stale, write_atomic
from benthic.base.modelfile import dumps, load_tree
from benthic.base.seeds import shared_sources, sources
from benthic.base.settings import is_number, is_whole
from benthic.training.distributed import World
from benthic.training.trainer import Checkpoint

_SHARE = 0.02  # writing takes at most this part of the run's time


class CheckpointFolder:
    """The checkpoints of one run: written now and then, the newest few kept, the newest readable one read."""

    def __init__(self, setting: Checkpoint, world: World) -> None:
        self.setting, self.world = setting, world
        self.folder = Path(setting.folder) / "checkpoints"
        self._last = time.perf_counter()
        self._wait = setting.every_seconds
        if world.first:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                remove_stale(self.folder)
                write_atomic(self.folder / ".writable", b"")
                (self.folder / ".writable").unlink()
            except OSError as error:
                raise InvalidInput(
                    f"checkpoint folder {self.folder} cannot be written ({error.strerror}); choose another"
                ) from error
        world.wait()

    def due(self, step: int) -> bool:
        """Whether it is time to write; with several processes the step count decides, so that all agree."""
        if self.setting.every_steps is not None:
            return step % self.setting.every_steps == 0
        if self.world.size > 1:
            return step % 100 == 0 and self.world.agree(time.perf_counter() - self._last > self._wait)
        return time.perf_counter() - self._last > self._wait

    def write(self, state: dict[str, Any], step: int) -> Path:
        """One more checkpoint; older ones beyond ``keep`` go only after it is safely there."""
        path = self.folder / f"step-{step:010d}.safetensors"
        start = time.perf_counter()
        if self.world.first:
            try:
                write_atomic(path, dumps(state))
            except OSError as error:
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                cause = "the disk is full" if full else error.strerror
                kept = self.newest()
                last = f"the last good checkpoint is {kept}" if kept else "there is no earlier checkpoint"
                raise OSError(
                    error.errno,
                    f"checkpoint at step {step} could not be written to {self.folder}: {cause}; {last}",
                ) from error
            for old in self._all()[: -self.setting.keep]:
                old.unlink(missing_ok=True)
        self._last = time.perf_counter()
        self._wait = max(self.setting.every_seconds, (self._last - start) / _SHARE)
        return path

    def newest(self) -> Path | None:
        """The file of the newest checkpoint."""
        found = self._all()
        return found[-1] if found else None

    def read(self) -> dict[str, Any] | None:
        """The newest checkpoint, or None; an unreadable one is passed over for the one before it."""
        for path in reversed(self._all()):
            try:
                return _checked(load_tree(path), path)
            except ModelFileError:
                if path == self._all()[0]:
                    raise
        return None

    def _all(self) -> list[Path]:
        return sorted(self.folder.glob("step-*.safetensors"))


def _checked(state: Any, path: Path) -> dict[str, Any]:
    """What a checkpoint holds, if it is of the kinds that ``Loop`` writes."""
    if not isinstance(state, dict):
        raise ModelFileError(f"{path} is no checkpoint; resume reads what training wrote")
    for name, fits in _MEANT.items():
        if name not in state or not fits(state[name]):
            held = f"{name} is {state[name]!r:.60}" if name in state else f"it has no {name}"
            raise ModelFileError(f"{path} is no checkpoint of a run: {held}")
    return state


def _is_count(value: Any) -> bool:
    return is_whole(value, 0)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_tree(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) for name in value)


def _are_trees(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_tree, value))


_MEANT: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("step", "epoch", "batch", "seed"), _is_count),
    **dict.fromkeys(("loss_sum", "weight_sum"), is_number),
    **dict.fromkeys(("done", "complete"), _is_flag),
    "history": _are_trees,
    "learner": _is_tree,
    "random": lambda value: _are_trees(value) and bool(value),
    "surroundings": _is_tree,
}


def stored_seed(setting: Checkpoint | None) -> int | None:
    """The seed of the run in a folder, so that a resumed run without ``random_state`` draws the same."""
    if setting is None:
        return None
    state = CheckpointFolder(setting, World()).read()
    return None if state is None else int(state["seed"])


def random_states(device: torch.device, shared: bool) -> dict[str, torch.Tensor]:
    """Where the generators stand that training draws from: this thread's own, and torch's if they are lent to it."""
    return {name: drawn.get_state() for name, drawn in _generators(device, shared).items()}


def restore_random(states: dict[str, torch.Tensor], device: torch.device, shared: bool) -> None:
    """The inverse of ``random_states``."""
    for name, drawn in _generators(device, shared).items():
        if name in states:
            drawn.set_state(states[name].cpu())


def _generators(device: torch.device, shared: bool) -> dict[str, torch.Generator]:
    torchs = {f"shared {name}": drawn for name, drawn in shared_sources(device).items()} if shared else {}
    return {**sources(device), **torchs}


def surroundings(world: World) -> dict[str, Any]:
    """What bit-exactness depends on besides the state: versions, threads, processes."""
    return {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "processes": world.size,
    }
