"""One fit from beginning to end: settings resolved, run folder made, model fitted, judged and reported."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import Any

from benthic.base.catalogue import Entry, catalogue
from benthic.base.errors import Interrupted, InvalidInput, ModelFileError
from benthic.base.modelfile import load
from benthic.cli import runs, settings
from benthic.cli.console import answer, as_json, plain, say
from benthic.cli.failure import Usage
from benthic.cli.given import Basis, basis, check, kind_said, open_given, settle
from benthic.cli.inputs import JUDGED, Inputs, open_data, split, suited
from benthic.cli.runs import Config, Run
from benthic.cli.work import judged, print_measures
from benthic.metrics.judging import Measure, judgeable, measures
from benthic.training.trainer import Trainer

_TEST_FRACTION = 0.2
_OF_THE_RUN = ("checkpoint", "resume", "new_data", "callbacks")  # kept out of the model: the run folder decides them
_BEGUN = {"resume": False, "new_data": False}  # of a run: whether it goes on, and with other data


@dataclass(frozen=True)
class Asked:
    """What the command line said."""

    model: str
    data: str
    target: str | None = None
    given: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    out: Path | None = None
    test_fraction: float | None = None
    stream: bool | None = None


@dataclass(frozen=True)
class Outcome:
    """What a fit led to."""

    run: Run
    model: Any
    found: list[Measure]
    split: str
    rows: int
    fit_rows: int
    seconds: float
    basis: Basis


def start(asked: Asked) -> Outcome:
    """A new run."""
    entry = catalogue()[asked.model]
    said = settings.parse(asked.settings)
    params = _params(entry, said)
    check(entry, asked.given, asked.target, params)
    inputs = suited(_opened(asked.data, asked.target, asked.given, asked.drop, asked.stream), entry)
    _check_target(entry, inputs)
    if asked.given:
        params = settle(entry, params, said, inputs)
    elif kind_said(params) and not _supervised(entry) and inputs.target is None:
        raise Usage(f"{entry.name} is to learn with a condition; name its column with --given COL")
    config = _config(asked, params, inputs)
    if runs.processes() > 1 and (asked.out is None or "random_state=" not in " ".join(asked.settings)):
        raise Usage("several processes must agree: give --out RUN and --set random_state=0")
    if not runs.leader():
        return _fit(Run(asked.out or Path()), config, inputs)
    there_before = asked.out is not None and asked.out.exists()
    run = runs.create(asked.out, asked.model, asked.data)
    run.write_config(config)
    try:
        return _fit(run, config, inputs)
    except (ValueError, TypeError):
        _forget(run, keep_folder=there_before)
        raise


def go_on(run: Run, new_data: bool = False) -> Outcome:
    """The rest of a run, from its newest checkpoint; from the start where there is none."""
    config = run.config()
    if config.model not in catalogue():
        raise Usage(f"{run.folder} was made with {config.model!r}, which this version does not know")
    entry = catalogue()[config.model]
    try:
        _params(entry, config.params)
    except Usage as error:
        raise ModelFileError(f"{run.folder / 'config.yaml'} does not describe a run: {error}") from error
    inputs = _opened(config.data, config.target, config.given, config.drop, config.stream)
    going = {"resume": True, "new_data": new_data}
    return _fit(run, config, suited(inputs, entry), going)


def _opened(data: str, target: Any, given: Sequence[Any], drop: Sequence[Any], stream: bool | None) -> Inputs:
    """The rows, with the target or the condition of each as ``y``."""
    return open_given(data, given, drop, stream=stream) if given else open_data(data, target, drop, stream=stream)


def report_to(outcome: Outcome, json: bool) -> None:
    """Print what came out."""
    if not runs.leader():
        return
    if json:
        facts: dict[str, Any] = {
            "run": str(outcome.run.folder),
            "model": type(outcome.model).__name__,
            "state": "finished",
        }
        facts |= {"fit_rows": outcome.fit_rows, "split": outcome.split, "seconds": round(outcome.seconds, 3)}
        facts["given"] = list(outcome.basis.columns)
        as_json(facts | judged(outcome.found, outcome.rows))
        return
    what = "held-out rows" if outcome.split == "test" else "rows it was fitted on"
    if outcome.found:
        print_measures(outcome.found, f"{type(outcome.model).__name__} on {outcome.rows} {what}{outcome.basis.words}")
    answer(f"\n{outcome.run.folder}: fitted in {outcome.seconds:.1f} s; see {outcome.run.report_path}")


# -- settings ------------------------------------------------------------------------------------------


def _params(entry: Entry, said: dict[str, Any]) -> dict[str, Any]:
    """Every parameter of the model with its value, the trainer's settings among them."""
    cls: Any = entry.cls
    names = [f.name for f in fields(Trainer)]
    settings.check(entry.name, said, cls._get_param_names(), names)
    given = dict(said)
    try:
        if "trainer" in given:
            trainer = Trainer.of(_with_folder(given["trainer"], "."))
            _ = trainer.saving, trainer.stopping  # refuse wrong settings inside them
        params = cls(**given).get_params(deep=False)
    except (TypeError, ValueError) as error:
        raise Usage(str(error)) from error
    if "trainer" in params:
        trainer = Trainer.of(_with_folder(params["trainer"], None), **getattr(cls, "defaults", {}))
        params["trainer"] = {
            key: value
            for key, value in trainer.to_tree().items()
            if value is not None and key not in ("resume", "new_data", "callbacks")
        }
    return dict(plain(params, finite=False))


def _with_folder(trainer: Any, folder: str | None, going: Mapping[str, bool] = _BEGUN) -> Any:
    """Trainer settings with the run folder for checkpoints, or without one."""
    if trainer is None and folder is None:
        return None
    held = dict(trainer or {})
    wishes = held.pop("checkpoint", None)
    if folder is not None:
        held["checkpoint"] = {**(wishes or {}), "folder": folder}
        held |= going
    elif wishes:
        held["checkpoint"] = wishes
    return held


def _config(asked: Asked, params: dict[str, Any], inputs: Inputs) -> Config:
    fraction = asked.test_fraction
    if inputs.streamed and fraction:
        raise Usage("a streamed file is not split; fit on one file and judge on another with benthic evaluate")
    seed = params.get("random_state")
    if not isinstance(seed, int):
        seed = secrets.randbelow(2**31)
        if "random_state" in params:
            params = {**params, "random_state": seed}
    path = Path(asked.data)
    in_file = path.exists() and inputs.name == path.name
    return Config(
        model=asked.model,
        params=params,
        data=str(path.resolve()) if in_file else asked.data,
        target=inputs.target,
        given=_told(asked, params, inputs),
        drop=list(asked.drop),
        stream=inputs.streamed,
        test_fraction=0.0 if inputs.streamed else _TEST_FRACTION if fraction is None else fraction,
        seed=seed,
        columns=list(inputs.columns),
        classes=list(inputs.classes),
        versions=_versions(),
    )


def _told(asked: Asked, params: dict[str, Any], inputs: Inputs) -> list[Any]:
    """The columns that are the condition of each row: those named, or the target of a model that is told it."""
    entry = catalogue()[asked.model]
    if len(asked.given) > 1:
        return list(asked.given)
    told = asked.given or (entry.given and (_supervised(entry) or kind_said(params)))
    return [inputs.target] if told and inputs.target is not None else []


def _versions() -> dict[str, str]:
    named = {name: metadata.version(name) for name in ("torch", "numpy", "scikit-learn")}
    import benthic

    return {"benthic": benthic.__version__, "python": ".".join(map(str, sys.version_info[:3])), **named}


def _check_target(entry: Entry, inputs: Inputs) -> None:
    if _supervised(entry) and inputs.target is None and inputs.y is None:
        table = inputs.X.schema if inputs.streamed else inputs.X
        columns = getattr(table, "names", None) or getattr(table, "column_names", None)
        there = f"; the columns are {', '.join(map(str, columns[:12]))}" if columns else ""
        raise Usage(f"{entry.name} learns to predict a column; name it with --target COL{there}")


# -- the fit -------------------------------------------------------------------------------------------


def _fit(run: Run, config: Config, inputs: Inputs, going: Mapping[str, bool] = _BEGUN) -> Outcome:
    entry = catalogue()[config.model]
    given_labels = bool(config.given) and kind_said(config.params) == "labels"
    labels = given_labels or "classify" in entry.tasks
    rest, held = split(inputs, config.test_fraction, config.seed, labels=labels, every=given_labels)
    begin = time.perf_counter()
    if going["resume"] and run.model_path.exists():
        model = load(run.model_path)  # only the report was still missing
    else:
        model = _learn(entry, config, run, rest, held, going)
    seconds = time.perf_counter() - begin
    if not runs.leader():
        return Outcome(run, model, [], "", 0, rest.rows, seconds, Basis())
    part = rest.some(JUDGED, config.seed) if held is None else held
    found, rests = _judged(model, config, part)
    outcome = Outcome(run, model, found, "train" if held is None else "test", part.rows, rest.rows, seconds, rests)
    _finish(outcome, config, part)
    return outcome


def _judged(model: Any, config: Config, part: Inputs) -> tuple[list[Measure], Basis]:
    """The numbers of a fitted model and what they rest on, or why there are none; the model is kept either way."""
    rests = basis(model, config.given)
    if not judgeable(model):
        return [], rests
    y = part.y if _supervised(catalogue()[config.model]) else None
    try:
        return measures(model, part.X, y, given=part.y if rests.columns else None), rests
    except InvalidInput as error:
        say(f"{config.model} is fitted, but not judged: {error}")
        return [], Basis(words=f"; there are no numbers: {error}")


def _learn(entry: Entry, config: Config, run: Run, rest: Inputs, held: Inputs | None, going: Mapping[str, bool]) -> Any:
    """Fit the model, and save it without the settings that belong to the run folder."""
    if runs.leader():
        kept = "" if held is None else f", {held.rows} held out"
        told = "" if _supervised(entry) or not config.given else f", given {_condition(config)}"
        say(f"{config.model} on {rest.name}{told}: {rest.rows} rows to fit{kept}; run {run.folder}")
    params = dict(config.params)
    if "trainer" in params:
        params["trainer"] = _with_folder(params["trainer"], str(run.folder), going)
    model: Any = entry.cls(**params)
    try:
        model.fit(rest.X, *_answers(entry, config, rest))
    except Interrupted:
        raise
    except KeyboardInterrupt as error:
        raise Interrupted(f"{config.model}: stopped; begin again with `benthic resume {run.folder}`") from error
    if runs.leader():
        if "trainer" in params:
            model.set_params(trainer=_without_run(config.params["trainer"]))
        model.save(run.model_path)
    return model


def _answers(entry: Entry, config: Config, rest: Inputs) -> tuple[Any, ...]:
    """What is passed to ``fit`` beside the rows: targets, conditions, or the name of their column in a stream."""
    if _supervised(entry):
        return () if rest.streamed else (rest.y,)
    if not config.given:
        return ()
    return (rest.X.target,) if rest.streamed else (rest.y,)


def _condition(config: Config) -> str:
    kind = kind_said(config.params)
    return ", ".join(map(str, config.given)) + (f" as {kind}" if kind else "")


def _supervised(entry: Entry) -> bool:
    return bool({"classify", "regress", "label"} & set(entry.tasks))


def _without_run(trainer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in trainer.items() if key not in _OF_THE_RUN}


def _finish(outcome: Outcome, config: Config, part: Inputs) -> None:
    """Numbers, pictures and, last, the report: its presence says that the run is finished."""
    from benthic.cli.figures import pictures_of
    from benthic.cli.report import of_run

    run, model = outcome.run, outcome.model
    history = getattr(model, "history_", None) or [{}]
    last = {key: history[-1][key] for key in ("epoch", "step") if key in history[-1]}
    numbers = {key: n for m in outcome.found for key, n in ((m.key, m.value), (f"{m.name}_stderr", m.stderr))}
    told = {"given": ", ".join(map(str, outcome.basis.columns))} if outcome.basis.columns else {}
    run.write_evaluation({**last, "split": outcome.split, "rows": outcome.rows, **told, **numbers})
    pictures = pictures_of(model, part)
    for picture in pictures:
        picture.save(run.pictures)
    of_run(outcome, config, pictures).write(run.report_path)


def _forget(run: Run, keep_folder: bool) -> None:
    """Take back a run that was refused before it learned anything, so that mistakes leave nothing behind."""
    if run.metrics() or run.state != "begun" or run.model_path.exists():
        return
    for path in (run.folder / "config.yaml", run.metrics_path):
        path.unlink(missing_ok=True)
    for folder in (run.folder / "checkpoints", run.folder):
        if folder.is_dir() and not any(folder.iterdir()) and not (keep_folder and folder == run.folder):
            folder.rmdir()
