"""What the imports cost, each in a process of its own."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Quality, alternate, median_interval, python
from benchmarks.report import Claim, Result

TITLE = "seconds of `import benthic` and of the first `benthic.VAE`"
STATEMENTS = {
    "import benthic": "import benthic",
    "benthic.VAE": "import benthic; benthic.VAE",
    "import torch, sklearn.base": "import torch, sklearn.base",
}
CODE = """
import json, time
start = time.perf_counter()
{statement}
print(json.dumps(dict(seconds=time.perf_counter() - start)))
"""


def measure(statement: str) -> Quality:
    """Seconds of a statement in a fresh interpreter, timed from within."""
    seconds: Quality = python("-c", CODE.format(statement=statement))
    return seconds


def run(quick: bool = False) -> Result:
    """Alternate the three statements; the warm-up round fills the page cache."""
    timings = alternate(
        {name: lambda text=text: measure(text) for name, text in STATEMENTS.items()},
        repeats=2 if quick else 11,
    )
    alone = median_interval(np.asarray(timings.seconds["import benthic"]))
    claims = [
        Claim("import benthic", alone, "<=", 0.05, " s"),
        Claim(
            "benthic.VAE - import torch, sklearn.base",
            timings.difference("benthic.VAE", "import torch, sklearn.base"),
            "<=",
            0.3,
            " s",
        ),
    ]
    return Result("import_time", TITLE, claims, timings)
