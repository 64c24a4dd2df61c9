"""``benthic list`` and ``benthic show``: what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from benthic.base.catalogue import catalogue
from benthic.base.errors import nearest
from benthic.cli.console import answer, as_json, table
from benthic.cli.failure import Usage

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder or a model.safetensors file.")]


def list_models(
    family: Annotated[str | None, typer.Option(metavar="F", help="Only models of this family.")] = None,
    json: AsJson = False,
) -> None:
    """List the models, with what each is for."""
    entries = list(catalogue().values())
    families = sorted({entry.family for entry in entries})
    if family is not None:
        if family not in families:
            raise Usage(f"there is no family {family!r}{nearest(family, families)}; there are {', '.join(families)}")
        entries = [entry for entry in entries if entry.family == family]
    if json:
        as_json(
            [
                {
                    "name": entry.name,
                    "family": entry.family,
                    "tasks": entry.tasks,
                    "data": entry.data,
                    "summary": entry.summary,
                }
                for entry in entries
            ]
        )
        return
    rows = [(entry.name, entry.family, ", ".join(entry.tasks), entry.summary) for entry in entries]
    table(("model", "family", "can", "what it is"), rows)


def show(run: RunArgument, json: AsJson = False) -> None:
    """Show a run: the fitted model, how it was asked for, its last numbers, its files."""
    from benthic.cli import runs

    model = None
    facts: dict[str, Any] = {}
    if run.is_file() and not (run.parent / "config.yaml").exists():
        model, _ = runs.model_of(run)
        facts = {"file": str(run), "bytes": run.stat().st_size}
    else:
        found = runs.find(run)
        facts = _facts(found)
        if found.model_path.exists():
            model, _ = runs.model_of(found.model_path)
    facts["summary"] = None if model is None else model.summary()
    if json:
        as_json(facts)
        return
    _print(facts)


def _facts(run: Any) -> dict[str, Any]:
    from dataclasses import asdict

    lines = run.metrics()
    training = [line for line in lines if "split" not in line]
    judged = [line for line in lines if "split" in line]
    return {
        "run": str(run.folder),
        "state": run.state,
        "config": asdict(run.config()),
        "last": training[-1] if training else None,
        "evaluation": judged[-1] if judged else None,
        "files": run.files(),
    }


def _print(facts: dict[str, Any]) -> None:
    if "file" in facts:
        answer(f"{facts['summary']}\n\n{facts['file']}: {size(facts['bytes'])}")
        return
    config = facts["config"]
    answer(f"{facts['run']} ({facts['state']})")
    if facts["summary"]:
        answer(facts["summary"])
    rows = [("model", config["model"]), ("data", config["data"]), ("target", config["target"])]
    rows += [("given", ", ".join(map(str, config["given"])) or None)]
    rows += [("drop", ", ".join(map(str, config["drop"])) or None), ("seed", config["seed"])]
    rows += [(f"{name}", value) for name, value in flat(config["params"]).items()]
    answer()
    table(("setting", "value"), [(name, value) for name, value in rows if value is not None])
    for title, line in (("last epoch", facts["last"]), ("evaluation", facts["evaluation"])):
        if line:
            answer()
            table((title, "value"), [(key, number(value)) for key, value in line.items()])
    answer()
    table(("file", "size"), [(name, size(held)) for name, held in facts["files"].items()])
    if facts["state"] != "finished":
        answer(f"\nbenthic resume {facts['run']} goes on")


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted name, as ``--set`` writes them.

    >>> flat({"alpha": 1, "trainer": {"epochs": 5}})
    {'alpha': 1, 'trainer.epochs': 5}
    """
    found: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        found.update(flat(value, f"{name}.") if isinstance(value, dict) and value else {name: value})
    return found


def number(value: Any) -> str:
    """A number in six digits, everything else as it is."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def size(held: int) -> str:
    """Bytes for people.

    >>> size(2048)
    '2.0 kB'
    """
    amount = float(held)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GB"
