"""Settings on the command line: ``--set trainer.epochs=50`` to the parameters of a model."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from benthic.base.errors import nearest
from benthic.cli.failure import Usage

# the run folder decides these
_OF_THE_RUN = {
    "checkpoint": "choose the run folder with --out, and how often with trainer.checkpoint.every_steps",
    "resume": "use benthic resume RUN",
    "new_data": "use benthic resume RUN --new-data",
    "callbacks": "callbacks are objects, so they are set from Python",
}


def parse(settings: Iterable[str]) -> dict[str, Any]:
    """``key=value`` pairs as a tree; keys nest by ``.`` or ``__``.

    >>> parse(["latent_dim=2", "trainer.epochs=5", "trainer__lr=1e-3", "activation=tanh"])
    {'latent_dim': 2, 'trainer': {'epochs': 5, 'lr': 0.001}, 'activation': 'tanh'}
    """
    tree: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise Usage(f"--set {setting}: a setting is written key=value, for example --set trainer.epochs=50")
        path = key.strip().replace("__", ".").split(".")
        branch = tree
        for part in path[:-1]:
            inner = branch.setdefault(part, {})
            if not isinstance(inner, dict):
                raise Usage(f"--set {setting}: {part} was set to {inner!r}, so it has no parts")
            branch = inner
        value, old = value_of(text), branch.get(path[-1])
        branch[path[-1]] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return tree


def value_of(text: str) -> Any:
    """A value as Python or YAML writes it; anything else is a string.

    >>> [value_of(t) for t in ("1e-3", "(64, 32)", "true", "None", "{name: sgd}", "relu")]
    [0.001, (64, 32), True, None, {'name': 'sgd'}, 'relu']
    """
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        import yaml

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            return text


def check(model: str, params: Mapping[str, Any], names: list[str], trainer: list[str]) -> None:
    """Refuse settings that do not exist; names: of the model, trainer: of ``Trainer``."""
    for name in params:
        if name in names:
            continue
        if "trainer" in names and name in trainer:
            raise Usage(f"{model} has no setting {name!r} of its own; use --set trainer.{name}=...")
        raise Usage(f"{model} has no setting {name!r}{nearest(name, names)}; it has {', '.join(names)}")
    inner = params.get("trainer") or {}
    if not isinstance(inner, dict):
        raise Usage(f"the trainer is {inner!r}; set its parts, for example --set trainer.epochs=50")
    for name, value in inner.items():
        if name not in trainer:
            raise Usage(f"the trainer has no setting {name!r}{nearest(name, trainer)}; it has {', '.join(trainer)}")
        owned = name in _OF_THE_RUN and not (name == "checkpoint" and isinstance(value, dict) and "folder" not in value)
        if owned:
            raise Usage(f"--set trainer.{name}: {_OF_THE_RUN[name]}")
