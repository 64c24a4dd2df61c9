"""Names that a package exports exist, import nothing heavy until asked for, and are never a module's name."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import benthic
from benchmarks.harness import python

ROOMS = sorted(found.name for found in pkgutil.iter_modules(benthic.__path__) if found.ispkg)
LAZY = [room for room in ROOMS if hasattr(importlib.import_module(f"benthic.{room}"), "_EXPORTS")]


@pytest.mark.parametrize("room", LAZY)
def test_every_exported_name_exists(room):
    package = importlib.import_module(f"benthic.{room}")
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert dir(package) == sorted(package.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        _ = package.no_such_name


@pytest.mark.parametrize("room", LAZY)
def test_no_exported_name_is_a_module(room):
    """Importing a submodule sets its name on the package, so it would hide a function of that name."""
    package = importlib.import_module(f"benthic.{room}")
    modules = {found.name for found in pkgutil.iter_modules(package.__path__)}
    assert not modules & set(package.__all__)


def test_every_room_is_reached_from_the_top():
    assert set(ROOMS) - {"cli"} <= set(dir(benthic))


def test_packages_import_without_torch():
    code = "import sys, importlib\n"
    code += "".join(f"importlib.import_module('benthic.{room}')\n" for room in LAZY)
    code += "import json; print(json.dumps({'heavy': 'torch' in sys.modules or 'scipy' in sys.modules}))"
    assert python("-c", code) == {"heavy": False}
