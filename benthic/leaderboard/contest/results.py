"""What a comparison found: the table, the verdict, and the ways to keep them."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benthic.base.errors import InvalidInput, nearest
from benthic.base.files import write_atomic
from benthic.base.harmless import inert
from benthic.leaderboard.contest.records import Budget, DataFacts, Line, Outcome

_UNSAID = ("outcomes", "real", "seen", "folder", "holder")  # fields of a Comparison that are not words or numbers


@dataclass(frozen=True)
class Comparison:
    """Every model side by side: made by ``benthic.compare``, read as text, kept as JSON, CSV, Markdown or HTML.

    task: ``generate``, ``classify``, ``regress`` or ``cluster``. lines: one a model, ranked ones first and in order.
    metrics: names of those that rank. floor: each metric between two halves of real rows. baselines: names of the lines
    that are baselines; reference: for each metric the one that the normalized score takes for 1. verdict: sentences.
    seconds: of the whole run; fit_seconds: of all fits together; overhead: share of the run
    in which no model was being fitted, NaN where all fits were kept from before.
    real: held-out rows, like the samples; seen: the same as models saw them, where that is otherwise. outcomes: of
    every fit. folder: where all of it is kept.
    """

    task: str
    data: DataFacts
    budget: Budget
    seeds: tuple[int, ...]
    lines: tuple[Line, ...]
    metrics: tuple[str, ...] = ()
    floor: dict[str, float] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()
    reference: dict[str, str] = field(default_factory=dict)
    verdict: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    seconds: float = math.nan
    fit_seconds: float = math.nan
    overhead: float = math.nan
    folder: Path | None = None
    real: Any = field(default=None, repr=False)
    seen: Any = field(default=None, repr=False)
    outcomes: tuple[Outcome, ...] = field(default=(), repr=False)
    holder: Any = field(default=None, repr=False, compare=False)

    # -- what it says ----------------------------------------------------------------------------------

    @property
    def best(self) -> Line | None:
        """The first of the ranked models that is not a baseline, or of all ranked ones; None if none is ranked."""
        ranked = [line for line in self.lines if line.ranked]
        return next((line for line in ranked if line.origin != "baseline"), ranked[0] if ranked else None)

    def line(self, name: str) -> Line:
        """The row of one model."""
        for line in self.lines:
            if line.name == name:
                return line
        raise InvalidInput(f"Comparison: there is no {name!r}{nearest(name, [line.name for line in self.lines])}")

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Names of columns, and one row of texts for each model, to print."""
        likely = any(line.likelihood for line in self.lines)
        columns = ["rank", "model", "P(best)", "score", *self.metrics]
        columns += ["log-likelihood"] if likely else []
        columns += ["fit s", "note"]
        return columns, [self._cells(line, likely) for line in self.lines]

    def rows(self) -> list[dict[str, Any]]:
        """One dict of plain values for each model, to compute with."""
        return [_flat(line) for line in self.lines]

    def __str__(self) -> str:
        columns, rows = self.table()
        shape = " x ".join(map(str, self.data.shape)) if len(self.data.shape) > 1 else f"{self.data.columns} columns"
        head = (
            f"{self.task} on {self.data.name}: {self.data.rows} rows, {shape}; {self.budget}, {len(self.seeds)} seeds"
        )
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        body = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in [columns, *rows]]
        return "\n".join([head, *body, "", *self.verdict])

    def _cells(self, line: Line, likely: bool) -> list[str]:
        cells = [line.rank, line.name, _percent(line.p_best) if line.ranked else "-", _interval(line)]
        for metric in self.metrics:
            score = line.scores.get(metric)
            cells.append("-" if score is None else _number(score.value, score.stderr))
        if likely:
            cells.append(_likelihood(line))
        return [*cells, _short(line.seconds), _note(line)]

    # -- what it keeps ---------------------------------------------------------------------------------

    def samples(self, name: str, seed: int | None = None) -> Any:
        """Rows that a model made, of one seed or of the first that has any."""
        self.line(name)
        found = [o for o in self.outcomes if o.name == name and o.samples is not None and seed in (None, o.seed)]
        if not found:
            raise InvalidInput(f"Comparison.samples: {name} left no samples; its line in the table says why")
        return found[0].samples

    def model(self, name: str, seed: int | None = None) -> Any:
        """The saved fit of a model, of one seed or of the first that was kept."""
        from benthic.base.modelfile import load

        self.line(name)
        for outcome in self.outcomes:
            if outcome.name != name or outcome.folder is None or seed not in (None, outcome.seed):
                continue
            path = outcome.folder / "model.safetensors"
            if path.exists():
                return load(path)
        raise InvalidInput(
            f"Comparison.model: no fit of {name} was kept; models outside the catalogue and failed fits are not saved"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but samples and models, in plain values; NaN becomes None."""
        tree = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in _UNSAID}
        plain: dict[str, Any] = _plain({**tree, "best": self.best.name if self.best else None})
        return plain

    def to_json(self, path: str | Path | None = None) -> str:
        """The comparison as JSON text, also written to ``path``."""
        return _kept(json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n", path)

    def to_csv(self, path: str | Path | None = None, *, safe: bool = False) -> str:
        """The table as CSV text with full numbers, also written to ``path``.

        safe: put an apostrophe before names and reasons that a spreadsheet would take for formulas.
        """
        rows = self.rows()
        if safe:
            rows = [{inert(k): inert(v) if isinstance(v, str) else v for k, v in row.items()} for row in rows]
        names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows([{key: "" if value is None else value for key, value in row.items()} for row in rows])
        return _kept(text.getvalue(), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """The table and the verdict as Markdown, also written to ``path``."""
        columns, rows = self.table()
        lines = [f"# {self.task}: {self.data.name}", "", f"{self.data.rows} rows, {self.budget}.", ""]
        lines += [_bar(columns), _bar(["---"] * len(columns)), *map(_bar, rows), ""]
        return _kept("\n".join([*lines, *(f"- {sentence}" for sentence in self.verdict)]) + "\n", path)

    def report(self, path: str | Path) -> Path:
        """One self-contained HTML page with the table, pictures and the verdict."""
        from benthic.leaderboard.contest.showing.page import write_report

        write_report(self, Path(path))
        return Path(path)


def _bar(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _kept(text: str, path: str | Path | None) -> str:
    if path is not None:
        write_atomic(Path(path), text.encode())
    return text


def _plain(value: Any) -> Any:
    """Only what JSON can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _flat(line: Line) -> dict[str, Any]:
    """One line in plain values, nothing nested."""
    row: dict[str, Any] = {
        name: getattr(line, name)
        for name in ("name", "origin", "status", "ranked", "rank_low", "rank_high", "p_best", "quality")
    }
    row |= {"quality_low": line.quality_low, "quality_high": line.quality_high}
    for name, score in line.scores.items():
        row |= {name: score.value, f"{name} stderr": score.stderr, f"{name} normalized": score.normalized}
    if line.likelihood is not None:
        found = line.likelihood
        row |= {"log_likelihood": found.value, "log_likelihood stderr": found.stderr}
        row |= {"likelihood kind": found.kind, "bound": found.bound, "measure": found.measure}
    row |= {"seconds": line.seconds, "sample_seconds": line.sample_seconds, "memory": line.memory}
    row |= {"parameters": line.parameters, "fits": line.fits, **line.extra}
    row |= {"reason": line.reason, "findings": " ".join(finding.text for finding in line.findings)}
    return {key: _plain(value) for key, value in row.items()}


def _short(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.0f}%"


def _number(value: float, error: float) -> str:
    return _short(value) if math.isnan(error) else f"{_short(value)} ± {error:.1g}"


def _interval(line: Line) -> str:
    if math.isnan(line.quality):
        return "-"
    if math.isnan(line.quality_low):
        return f"{line.quality:.2f}"
    return f"{line.quality:.2f} ({line.quality_low:.2f} to {line.quality_high:.2f})"


def _likelihood(line: Line) -> str:
    found = line.likelihood
    if found is None:
        return "-"
    sign = {"lower": "≥ ", "upper": "≤ ", "estimate": "≈ "}.get(found.bound, "")
    return f"{sign}{found.value:.4g} ({found.manner})"


def _note(line: Line) -> str:
    if line.status != "ok" or not line.ranked:
        return line.reason or line.status
    kinds = [finding.kind for finding in line.findings if finding.kind not in ("good", "best", "note")]
    return ", ".join(["baseline"] * (line.origin == "baseline") + kinds)
