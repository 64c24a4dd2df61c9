"""Data in every form a model takes: files, sources larger than memory, bundled sets, toys, splits."""

from __future__ import annotations

from benthic.data import toys
from benthic.data.batch import Batch
from benthic.data.bundled import load, names
from benthic.data.dataset import Dataset
from benthic.data.read import read
from benthic.data.scan import as_source, scan
from benthic.data.sources import Source
from benthic.data.splits import folds, train_test
from benthic.data.standardize import Standardizer

__all__ = [
    "Batch",
    "Dataset",
    "Source",
    "Standardizer",
    "as_source",
    "folds",
    "load",
    "names",
    "read",
    "scan",
    "toys",
    "train_test",
]
