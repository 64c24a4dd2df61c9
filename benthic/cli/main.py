"""The command ``benthic``: its commands, its errors in one line, its exit codes."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, Any

import typer

from benthic import __version__
from benthic.base.errors import nearest
from benthic.cli import compare, demo, fit, look, use
from benthic.cli.console import say
from benthic.cli.failure import FAILED, INTERRUPTED, USAGE, Usage, one_line

# click's class, whether typer brings its own copy of click or not
_UsageError: Any = typer.BadParameter.__base__


class Commands(typer.core.TyperGroup):
    """The commands; every error becomes one line on stderr and an exit code."""

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """Run and exit with 0 (fine), 1 (failed), 2 (asked wrongly) or 130 (interrupted)."""
        try:
            code = super().main(*args, standalone_mode=False, **options)
        except _UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                typer.echo(error.ctx.get_help())
            else:
                _say(_usage_text(error))
            code = USAGE
        code = code if isinstance(code, int) else 0
        if standalone_mode:
            sys.exit(code)
        return code

    def invoke(self, ctx: Any) -> Any:
        """Run one command."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, _UsageError, BrokenPipeError):
            raise
        except (KeyboardInterrupt, Exception) as error:
            if os.environ.get("BENTHIC_DEBUG"):
                raise
            interrupted = isinstance(error, KeyboardInterrupt)
            _say(one_line(error))
            raise typer.Exit(INTERRUPTED if interrupted else USAGE if isinstance(error, Usage) else FAILED) from error


app = typer.Typer(
    name="benthic",
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Machine learning, all the way down: fit, judge, sample and explain any model of the catalogue.",
    epilog="Start with: benthic list · benthic compare iris --target species · benthic demo",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"benthic {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


_COMMANDS = {
    "list": (look.list_models, "List the models, with what each is for."),
    "fit": (fit.fit, "Fit a model to data; keep it in a run folder."),
    "resume": (fit.resume, "Go on with a run that was stopped."),
    "show": (look.show, "Show a run: settings, numbers, files."),
    "predict": (use.predict, "Predict the rows of a file."),
    "sample": (use.sample, "Draw new examples from a model."),
    "impute": (use.impute, "Fill the empty cells of a table."),
    "forecast": (use.forecast, "Say how sequences go on, with intervals."),
    "evaluate": (use.evaluate, "Judge a model: numbers with error bars."),
    "compare": (compare.compare, "Rank models of all families on your data."),
    "demo": (demo.demo, "Compare seven models of digits; one report."),
}
for _name, (_function, _words) in _COMMANDS.items():
    app.command(_name, short_help=_words)(_function)


def main() -> None:
    """The console script."""
    warnings.showwarning = _warn
    app(prog_name="benthic")


def _warn(message: Any, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None) -> None:
    del category, filename, lineno, file, line
    _say(f"warning: {' '.join(str(message).split())}")


def _say(text: str) -> None:
    say(f"benthic: {text}")


def _usage_text(error: Any) -> str:
    """What was asked wrongly, the nearest right thing, and what there is."""
    ctx = error.ctx
    command = ctx.info_name if ctx is not None and ctx.parent is not None else None
    prefix = f"{command}: " if command else ""
    options = [name for p in (ctx.command.params if ctx else ()) for name in p.opts if name.startswith("-")]
    if hasattr(error, "possibilities"):
        name = error.option_name
        return f"{prefix}there is no option {name}{nearest(name, options)}; there are {', '.join(options)}"
    text = " ".join(error.format_message().split()).rstrip(".")
    if text.startswith("No such command"):
        commands = list(ctx.command.commands)
        name = text.split("'")[1]
        return f"there is no command {name!r}{nearest(name, commands)}; there are {', '.join(commands)}"
    return f"{prefix}{text[:1].lower()}{text[1:]}; see benthic {command or ''} --help".replace("  ", " ")
