"""Sphinx: MyST pages, API pages made from the package, and examples that are executed."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))

project = "Benthic"
author = "The Benthic developers"
copyright = "2026, The Benthic developers"
release = version = version_of("benthic")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "auto_examples/**/*.ipynb", "sg_execution_times.rst"]
html_theme = "furo"
html_title = f"Benthic {release}"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
python_use_unqualified_type_names = True
# An annotation names a class by its short name, which two rooms may share.
suppress_warnings = ["ref.python"]
python_maximum_signature_line_length = 90

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "matplotlib_animations": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}


# ------------------------------------------------------------------------------------------ API pages


def write_api(_app: Any) -> None:
    """One page a room, made from what is there, so that a new room needs no page by hand."""
    import benthic

    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    rooms = sorted(found.name for found in pkgutil.iter_modules(benthic.__path__) if found.ispkg)
    pages = {room: room_page(f"benthic.{room}") for room in rooms}
    pages["index"] = index_page(rooms)
    for stale in folder.glob("*.rst"):
        if stale.stem not in pages:
            stale.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def index_page(rooms: list[str]) -> str:
    """The list of rooms, and where each estimator lives."""
    import benthic

    lines = [heading("API", "=")]
    lines += ["Every estimator is importable from the top; functions are reached by module.", ""]
    lines += [".. list-table::", "   :header-rows: 1", ""]
    lines += ["   * - estimator", "     - family", "     - in short"]
    for name in benthic.catalogue():
        entry = benthic.catalogue()[name]
        lines += [f"   * - :class:`benthic.{entry.name} <{entry.module}.{entry.name}>`"]
        lines += [f"     - {entry.family}", f"     - {entry.summary}"]
    lines += ["", ".. toctree::", "   :maxdepth: 1", "", *(f"   {room}" for room in rooms)]
    return "\n".join(lines) + "\n"


def room_page(package: str) -> str:
    """A title, the package's own docstring, a table of what it exports, and a section a module."""
    room = importlib.import_module(package)
    blocks = [heading(package, "="), f".. automodule:: {package}\n   :no-members:\n", exports_table(room)]
    for found in pkgutil.walk_packages(room.__path__, f"{package}."):
        if not found.name.rpartition(".")[2].startswith("_"):
            blocks += [heading(found.name, "-"), f".. automodule:: {found.name}\n"]
    return "\n".join(blocks)


def exports_table(room: Any) -> str:
    """What a package offers under its own name, each with the first sentence of its docstring."""
    names = sorted(getattr(room, "_EXPORTS", {}), key=str.lower)
    if not names:
        return ""
    lines = [".. list-table::", "   :widths: 35 65", ""]
    for name in names:
        thing = getattr(room, name)
        home = getattr(thing, "__module__", None) or room._EXPORTS[name]
        kind = "class" if isinstance(thing, type) else "func"
        if home.startswith("benthic."):
            lines += [f"   * - :{kind}:`~{home}.{name}`", f"     - {first_sentence(thing)}"]
        else:
            lines += [f"   * - ``{name}``", f"     - As in ``{room._EXPORTS[name]}``."]
    return "\n".join(lines) + "\n"


def first_sentence(thing: Any) -> str:
    """The first line of a docstring, safe in reStructuredText."""
    text = (thing.__doc__ or "").strip().splitlines()
    return escape(text[0]) if text else ""


def heading(text: str, line: str) -> str:
    """A reStructuredText heading."""
    return f"{text}\n{line * len(text)}\n"


# --------------------------------------------------------------------------------- plain docstrings

LITERAL = re.compile(r"(``.+?``|:\w+:`.+?`|`[^`]+`__?|`[^`]+`)")
ESCAPES = (
    (re.compile(r"(?<![\w`])([A-Za-z]\w*_)(?![\w`])"), r"``\1``"),  # coef_ is a name, not a link
    (re.compile(r"(?<![\w*\\])(\*{1,2})(?=\w)"), r"\\\1"),  # *args is not the start of emphasis
    (re.compile(r"(?<!\\)\|"), r"\\|"),  # |x| is not a substitution
)


def plain_docstring(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings are written for people who read code: names ending in _, *args and |x| stay themselves."""
    indent: int | None = None  # of the directive or doctest we are inside
    for index, line in enumerate(lines):
        text = line.lstrip()
        depth = len(line) - len(text)
        if indent is not None and text and depth <= indent:
            indent = None
        if text.startswith((".. ", ">>>", "...")):
            indent = depth if text.startswith("..") and not text.startswith("...") else indent
            continue
        if indent is None and text and not in_doctest(lines, index):
            lines[index] = escape(line)


def in_doctest(lines: list[str], index: int) -> bool:
    """Whether a line is the output of a doctest: no empty line since a prompt."""
    while index >= 0 and lines[index].strip():
        if lines[index].lstrip().startswith(">>>"):
            return True
        index -= 1
    return False


def escape(line: str) -> str:
    """A line whose text, but not whose literals, is safe in reStructuredText."""
    parts = LITERAL.split(line)
    for place in range(0, len(parts), 2):
        for pattern, replacement in ESCAPES:
            parts[place] = pattern.sub(replacement, parts[place])
    return "".join(parts)


def skip_member(_app: Any, _what: str, name: str, obj: Any, skip: bool, _options: Any) -> bool | None:
    """Leave out what scikit-learn generates on every class, and what Python says of fields."""
    if (getattr(obj, "__doc__", None) or "").startswith("Alias for field number"):
        return True  # the fields of a NamedTuple are told in its own docstring
    return True if re.fullmatch(r"set_\w+_request", name) else skip or None


def setup(app: Any) -> None:
    """Hook the three in."""
    app.connect("builder-inited", write_api, priority=100)
    app.connect("autodoc-process-docstring", plain_docstring)
    app.connect("autodoc-skip-member", skip_member)
