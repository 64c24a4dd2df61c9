"""The report of one run: its numbers with error bars, its pictures, its settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benthic.base.catalogue import catalogue
from benthic.cli.look import flat
from benthic.pictures.page import Number, Page, Picture

if TYPE_CHECKING:
    from benthic.cli.job import Outcome
    from benthic.cli.runs import Config


def of_run(outcome: Outcome, config: Config, pictures: Sequence[Picture]) -> Page:
    """The report of one run."""
    from benthic.cli.work import label, note

    page = Page(f"{config.model} on {Path(config.data).name}", catalogue()[config.model].summary)
    held = outcome.split == "test"
    text = f"Judged on {outcome.rows} rows " + ("that were held out of the fit" if held else "it was fitted on")
    text += outcome.basis.words
    page.heading("How good it is", f"{text}; fitted on {outcome.fit_rows} rows in {outcome.seconds:.1f} s.")
    rows = [(label(m), Number(m.value, m.stderr), note(m)) for m in outcome.found]
    page.table(("measure", "value ± standard error", ""), rows)
    if pictures:
        page.heading("What it learned")
        page.pictures(pictures)
    settings = {"data": config.data, "target": config.target, "given": config.given or None}
    settings |= {"drop": config.drop, "seed": config.seed}
    page.details("Settings", list((settings | flat(config.params)).items()))
    page.details("Versions", list(config.versions.items()))
    return page
