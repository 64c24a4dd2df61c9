"""Run folders: what a fit leaves behind, and how it is found again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from benthic.base.errors import ModelFileError, brief, nearest
from benthic.base.files import write_atomic
from benthic.base.settings import is_real, is_whole
from benthic.cli.console import plain
from benthic.cli.failure import Usage

ROOT = Path("runs")
_CONFIG, _MODEL = "config.yaml", "model.safetensors"


@dataclass(frozen=True)
class Config:
    """Everything that decides a run; written before its first step.

    params: of the model, all of them. data: a bundled name or a path. given: the columns that are the condition of
    each row. columns: names of the inputs, where the data are an array. classes: names of the labels 0, 1, ...
    seed: decides the split, and the model's ``random_state`` where that was not set.
    """

    model: str
    params: dict[str, Any]
    data: str
    target: str | int | None = None
    given: list[str | int] = field(default_factory=list)
    drop: list[str | int] = field(default_factory=list)
    stream: bool = False
    test_fraction: float = 0.0
    seed: int = 0
    columns: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def to_yaml(self) -> str:
        """The text of ``config.yaml``."""
        import yaml

        return str(yaml.safe_dump(plain(asdict(self), finite=False), sort_keys=False, allow_unicode=True))

    @classmethod
    def from_yaml(cls, text: str, where: Path) -> Config:
        """The inverse of ``to_yaml``."""
        import yaml

        try:
            tree = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
            raise ModelFileError(f"{where} is not readable YAML ({brief(error)}); restore it from a copy") from error
        if not isinstance(tree, Mapping) or not {"model", "params", "data"} <= set(tree):
            raise ModelFileError(f"{where} does not describe a run; it needs at least model, params and data")
        for key, (fits, meant) in _MEANT.items():
            if key in tree and not fits(tree[key]):
                raise ModelFileError(f"{where}: {key} is {tree[key]!r:.60}; it must be {meant}")
        return cls(**{key: value for key, value in tree.items() if key in _MEANT})


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value


def _is_column(value: Any) -> bool:
    return _is_word(value) or is_whole(value)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))


def _settings(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


_SETTINGS = (_settings, "settings by name")
_COLUMNS, _NAMES = (_list_of(_is_column), "a list of columns"), (_list_of(_is_plain), "a list of names")
_MEANT: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model": (_is_word, "the name of a model"),
    "params": _SETTINGS,
    "data": (_is_word, "a bundled name or a path"),
    "target": (lambda value: value is None or _is_column(value), "the name or number of a column"),
    "given": _COLUMNS,
    "drop": _COLUMNS,
    "stream": (lambda value: isinstance(value, bool), "true or false"),
    "test_fraction": (lambda value: is_real(value) and 0 <= value < 1, "a number in [0, 1)"),
    "seed": (lambda value: is_whole(value, 0), "a whole number of at least 0"),
    "columns": _NAMES,
    "classes": _NAMES,
    "versions": _SETTINGS,
}


@dataclass(frozen=True)
class Run:
    """One run folder.

    It holds ``config.yaml``, ``metrics.jsonl``, ``checkpoints/``, ``model.safetensors``, ``pictures/`` and,
    as the last thing written, ``report.html``.
    """

    folder: Path

    @property
    def model_path(self) -> Path:
        """The fitted model."""
        return self.folder / _MODEL

    @property
    def metrics_path(self) -> Path:
        """One JSON object a line: an epoch, or an evaluation."""
        return self.folder / "metrics.jsonl"

    @property
    def report_path(self) -> Path:
        """The report; its presence says that the run is finished."""
        return self.folder / "report.html"

    @property
    def pictures(self) -> Path:
        """The folder of pictures."""
        return self.folder / "pictures"

    @property
    def finished(self) -> bool:
        """Whether model and report are there."""
        return self.model_path.exists() and self.report_path.exists()

    @property
    def state(self) -> str:
        """``finished``, ``unfinished`` (with a checkpoint to go on from) or ``begun``."""
        if self.finished:
            return "finished"
        return "unfinished" if any(self.folder.glob("checkpoints/step-*.safetensors")) else "begun"

    def config(self) -> Config:
        """What the run was asked to do."""
        path = self.folder / _CONFIG
        return Config.from_yaml(path.read_text(encoding="utf-8", errors="replace"), path)

    def write_config(self, config: Config) -> None:
        """Before the first step, so that a killed run can be resumed."""
        write_atomic(self.folder / _CONFIG, config.to_yaml().encode())

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of ``metrics.jsonl``; a line cut off by a crash is left out."""
        if not self.metrics_path.exists():
            return []
        found = []
        for line in self.metrics_path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except (ValueError, RecursionError):
                continue
        return [line for line in found if isinstance(line, dict)]

    def write_evaluation(self, line: dict[str, Any]) -> None:
        """Put the evaluation after the epochs, in place of an earlier one."""
        lines = [old for old in self.metrics() if "split" not in old]
        text = "".join(json.dumps(plain(entry)) + "\n" for entry in [*lines, line])
        write_atomic(self.metrics_path, text.encode())

    def files(self) -> dict[str, int]:
        """Size in bytes of every file, by its path in the folder."""
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.stat().st_size for path in paths}


def create(out: Path | None, model: str, data: str) -> Run:
    """A new run folder: the one asked for, or ``runs/<model>-<data>-<n>`` with the first free number."""
    if out is not None:
        if out.is_file():
            raise Usage(f"--out {out} is a file; a run is a folder")
        if (out / _CONFIG).exists():
            raise Usage(f"{out} already holds a run; choose another --out, or go on with: benthic resume {out}")
        out.mkdir(parents=True, exist_ok=True)
        return Run(out)
    stem = f"{model}-{Path(data).name.split('.')[0] or 'data'}"
    taken = [path.name.rpartition("-")[2] for path in ROOT.glob(f"{stem}-*")]
    for number in count(1 + max((int(n) for n in taken if n.isdigit()), default=0)):
        folder = ROOT / f"{stem}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return Run(folder)
    raise AssertionError("numbers do not end")


def find(place: Path) -> Run:
    """The run in a folder; a wrong name suggests the nearest run."""
    if (place / _CONFIG).exists():
        return Run(place)
    if place.name == _MODEL and (place.parent / _CONFIG).exists():
        return Run(place.parent)
    if place.is_dir():
        raise Usage(f"{place} is not a run folder: it has no {_CONFIG}{_others(place)}")
    if place.is_file():
        raise Usage(f"{place} is a file; give the run folder")
    raise Usage(f"there is no run {str(place)!r}{_others(place)}")


def model_of(place: Path) -> tuple[Any, Config | None]:
    """The fitted model of a run folder or a model file, and the run's config where there is one."""
    from benthic.base.modelfile import load

    if place.is_file():
        config = place.parent / _CONFIG
        known = place.name == _MODEL and config.exists()
        return load(place), Run(place.parent).config() if known else None
    run = find(place)
    if not run.model_path.exists():
        raise Usage(f"{run.folder} has no fitted model yet; finish it with: benthic resume {run.folder}")
    return load(run.model_path), run.config()


def leader() -> bool:
    """Whether this process writes the files; under ``torchrun`` one of several does."""
    return int(os.environ.get("RANK", "0")) == 0


def processes() -> int:
    """How many processes fit together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def _others(place: Path) -> str:
    """The nearest run folder, or the newest ones."""
    folder = place.parent if place.parent.is_dir() else ROOT
    runs = sorted(folder.glob(f"*/{_CONFIG}"), key=lambda path: path.stat().st_mtime, reverse=True)
    if not runs:
        return "; benthic fit MODEL DATA makes one"
    names = [str(path.parent) for path in runs]
    return nearest(str(place), names) or f"; there are {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
