"""The weather data of Quinlan (1986, 1993): whether to play, from outlook, temperature, humidity and wind."""

from __future__ import annotations

import pandas as pd

_CATEGORIES = """sunny hot high false no|sunny hot high true no|overcast hot high false yes|rain mild high false yes
rain cool normal false yes|rain cool normal true no|overcast cool normal true yes|sunny mild high false no
sunny cool normal false yes|rain mild normal false yes|sunny mild normal true yes|overcast mild high true yes
overcast hot normal false yes|rain mild high true no"""
_NUMBERS = """sunny 75 70 true yes|sunny 80 90 true no|sunny 85 85 false no|sunny 72 95 false no|sunny 69 70 false yes
overcast 72 90 true yes|overcast 83 78 false yes|overcast 64 65 true yes|overcast 81 75 false yes
rain 71 80 true no|rain 65 70 true no|rain 75 80 false yes|rain 68 80 false yes|rain 70 96 false yes"""
_NAMES = ["outlook", "temperature", "humidity", "windy", "play"]
LACKING = 5  # the row whose outlook Quinlan (1993, section 3.2) makes unknown


def _frame(text: str) -> pd.DataFrame:
    return pd.DataFrame([row.split() for row in text.replace("\n", "|").split("|")], columns=_NAMES)


def categories() -> tuple[pd.DataFrame, pd.Series]:
    """All four attributes as categories."""
    frame = _frame(_CATEGORIES)
    return frame.drop(columns="play"), frame["play"]


def numbers(*, missing: bool = False) -> tuple[pd.DataFrame, pd.Series]:
    """Temperature and humidity as numbers; with ``missing`` one outlook is unknown."""
    frame = _frame(_NUMBERS).astype({"temperature": float, "humidity": float})
    if missing:
        frame.loc[LACKING, "outlook"] = None
    return frame.drop(columns="play"), frame["play"]
