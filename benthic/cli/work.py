"""What ``predict``, ``sample``, ``impute``, ``forecast`` and ``evaluate`` do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.catalogue import catalogue
from benthic.base.condition import Condition
from benthic.cli import outputs
from benthic.cli.console import as_json, table
from benthic.cli.failure import Usage
from benthic.cli.filling import Outside, fill
from benthic.cli.given import Basis, basis, check_told, rows_given
from benthic.cli.inputs import Inputs, rows_for
from benthic.cli.runs import Config, model_of
from benthic.cli.wishes import named, wish
from benthic.data.bundled import names
from benthic.metrics.judging import Measure, answers_of, labels_steps, measures

# the tasks whose models have a verb
_TASKS = {
    "predict": {"classify", "regress", "cluster", "label", "decode"},
    "predict_proba": {"classify"},
    "sample": {"generate"},
    "impute": {"impute"},
    "forecast": {"forecast"},
}


def predict(run: Path, data: str, out: Path | None, proba: bool, safe: bool) -> None:
    """Write the answers for every row."""
    outputs.check_ending(out)
    model, config = model_of(run)
    verb = "predict_proba" if proba else "predict"
    _needs(model, verb, "give probabilities" if proba else "predict")
    rows = _rows(model, config, data, None, need_y=False)
    answer = np.asarray(getattr(model, verb)(rows.X))
    if proba:
        columns = [f"p({label})" for label in getattr(model, "classes_", range(answer.shape[1]))]
    else:
        columns = ["prediction"] if answer.ndim == 1 else [f"prediction_{k}" for k in range(answer.shape[1])]
    outputs.write(answer, out, columns, safe=safe)


def sample(run: Path, n: int, seed: int | None, given: Sequence[str], out: Path | None, safe: bool) -> None:
    """Write new examples, given labels or vectors in turn where the model learned with them; tables say which."""
    outputs.check_ending(out)
    model, config = model_of(run)
    _needs(model, "sample", "sample")
    held = wish(model, given, n, *((config.given, config.classes) if config else ()))
    drawn = model.sample(n, seed=seed) if held is None else model.sample(n, seed=seed, given=held)
    beside = {} if held is None else named(held, config.given if config else ())
    outputs.write(drawn, out, config.columns if config else (), beside, safe=safe)


def impute(run: Path, data: str, given: Sequence[str], out: Path | None, safe: bool) -> None:
    """Write the rows with their empty cells filled."""
    outputs.check_ending(out)
    model, config = model_of(run)
    _needs(model, "impute", "fill empty cells")
    check_told(model, given)
    columns, drop = (config.given, config.drop) if config else ((), ())
    outside = Outside(config.target if config else None, given or columns, drop)
    filled, names = fill(model, data, outside)
    outputs.write(filled, out, names, safe=safe)


def forecast(run: Path, data: str, steps: int, level: float, out: Path | None, safe: bool) -> None:
    """Write the next steps of every sequence, one line a step."""
    outputs.check_ending(out)
    model, config = model_of(run)
    _needs(model, "forecast", "forecast")
    rows = _rows(model, config, data, None, need_y=False)
    mean = np.asarray(model.forecast(steps, given=rows.X), dtype=np.float64)
    spans = np.asarray(model.forecast_interval(steps, level, given=rows.X), dtype=np.float64)
    n, width = len(mean), mean.size // (len(mean) * steps)
    mean, spans = mean.reshape(n * steps, width), spans.reshape(n * steps, width, 2)
    columns = {"sequence": np.repeat(np.arange(n), steps), "step": np.tile(np.arange(1, steps + 1), n)}
    for j in range(width):
        mark = f"_{j}" if width > 1 else ""
        columns |= {f"mean{mark}": mean[:, j], f"low{mark}": spans[:, j, 0], f"high{mark}": spans[:, j, 1]}
    outputs.write(np.column_stack(list(columns.values())), out, list(columns), safe=safe)


def evaluate(run: Path, data: str, target: str | None, given: Sequence[str], json: bool) -> None:
    """Print how good the model is on the rows, given their condition where it learned with one."""
    model, config = model_of(run)
    check_told(model, given)
    supervised = answers_of(model) is not None or labels_steps(model)
    rests = Basis()
    if not supervised and getattr(model, "condition_", Condition()).told:
        rows, rests = _rows_and_basis(model, config, data, given)
    else:
        rows = _rows(model, config, data, target or (given[0] if given else None), need_y=supervised)
    if supervised and rows.y is None:
        raise Usage(f"{type(model).__name__} is judged by its answers; name the true ones with --target COL")
    found = measures(model, rows.X, rows.y if supervised else None, given=rows.y if rests.columns else None)
    if json:
        facts = {"run": str(run), "model": type(model).__name__, "data": data, "given": list(rests.columns)}
        as_json(facts | judged(found, rows.rows))
    else:
        print_measures(found, f"{type(model).__name__} on {rows.rows} rows of {rows.name}{rests.words}")


def _rows_and_basis(model: Any, config: Config | None, data: str, given: Sequence[str]) -> tuple[Inputs, Basis]:
    """The rows with their condition where the data have it, and what a judgment on them rests on."""
    columns = list(given) or (config.given if config else [])
    own = config is not None and (data not in names() or data == config.data)
    rows = rows_given(model, data, columns, config.drop if config is not None and own else ())
    told = ", ".join(map(str, columns)) or "its condition"
    if rows.y is None and given:
        raise Usage(f"{rows.name} has no column {told}; --given names one that it has")
    if rows.y is None and model.condition_.needed:
        raise Usage(
            f"this {type(model).__name__} is judged only given {told}, which {rows.name} lacks; use --given COL"
        )
    return rows, basis(model, columns, rows.y is not None)


def judged(found: list[Measure], rows: int) -> dict[str, Any]:
    """Measures for a program."""
    numbers = {
        m.name: {"value": m.value, "stderr": m.stderr, "better": m.better}
        | ({"kind": m.kind, "bound": m.bound} if m.kind else {})
        for m in found
    }
    return {"rows": rows, "metrics": numbers}


def print_measures(found: list[Measure], title: str) -> None:
    """Measures for a person."""
    rows = [(label(m), f"{m.value:.5g}", f"± {m.stderr:.2g}" if m.stderr == m.stderr else "", note(m)) for m in found]
    table(("measure", "value", "standard error", ""), rows, title)


def label(measure: Measure) -> str:
    """The name of a measure for a person."""
    return measure.name.replace("_", " ") + (f", {measure.kind}" if measure.kind else "")


def note(measure: Measure) -> str:
    """Which way is better, and what a bound means."""
    bound = {
        "lower": "a lower bound, nats",
        "upper": "an upper bound, nats",
        "exact": "nats",
        "estimate": "nats",
    }
    return ", ".join(filter(None, (f"{measure.better} is better", bound.get(measure.bound, ""))))


def _rows(model: Any, config: Config | None, data: str, target: Any, *, need_y: bool) -> Inputs:
    if config is None or (data in names() and data != config.data):
        return rows_for(model, data, target, (), need_y=need_y)
    return rows_for(model, data, config.target if target is None else target, config.drop, need_y=need_y)


def _needs(model: Any, verb: str, words: str) -> None:
    if hasattr(model, verb):
        return
    name = type(model).__name__
    can = [v for v in ("predict", "predict_proba", "sample", "transform", "impute", "log_prob") if hasattr(model, v)]
    others = [entry.name for entry in catalogue().values() if _TASKS[verb] & set(entry.tasks)]
    raise Usage(f"{name} does not {words}; it can {', '.join(can)}; {verb} is what {', '.join(others)} have")
