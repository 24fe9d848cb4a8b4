"""docs/reference/cli.md: what `--help` of every command says, written by `--update-golden`."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.cli import COMMANDS, module_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md"
HEAD = """\
# Commands

Written from `kafka-mirror COMMAND --help` by `pytest --update-golden tests/unit/test_cli_reference.py`; do not edit.

`kafka-mirror --verbose COMMAND` logs details. Options that set a `mirror.*` key are listed at [run](#run) alone; `classic`,
`explain` and `plan` have them too. In the place of FILE, several commands take the files of [classic](#classic).

"""
OWN = "settings of kafka-mirror"
CLASSIC = "instead of FILE"


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command."""
    parser = argparse.ArgumentParser(prog=f"kafka-mirror {name}")
    importlib.import_module(f"mirror.commands.{module_of(name)}").declare(parser)
    return parser


def cell(text: str) -> str:
    """Return a text as a cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def argument(action: argparse.Action) -> str:
    """Return how an option or a positional is written."""
    value = action.metavar or ("{" + ",".join(action.choices) + "}" if action.choices else action.dest.upper())
    if not action.option_strings:
        return f"[{value}]" if action.nargs == "?" else f"{value} ..." if action.nargs == "+" else str(value)
    if action.nargs == 0:
        return ", ".join(action.option_strings)
    return f"{', '.join(action.option_strings)} {f'[{value}]' if action.nargs == '?' else value}"


def rows(parser: argparse.ArgumentParser, *, of_process: bool) -> Iterator[str]:
    """Yield a row of a table for each option."""
    for group in parser._action_groups:
        title = group.title or ""
        if (title.startswith(OWN) and not of_process) or (title.startswith(CLASSIC) and "classic" not in parser.prog):
            continue
        for action in group._group_actions:
            if (
                isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
                or action.help == argparse.SUPPRESS
            ):
                continue
            values = {**vars(action), "prog": parser.prog}
            yield f"| `{cell(argument(action))}` | {cell((action.help or '') % values)} |\n"


def table(parser: argparse.ArgumentParser, *, of_process: bool = False) -> str:
    """Return the options of a command as a table."""
    found = "".join(rows(parser, of_process=of_process))
    return f"| option | meaning |\n|---|---|\n{found}\n" if found else ""


def actions_of(parser: argparse.ArgumentParser) -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """Return the actions of a command, by their names: what each does, and its parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            said = {choice.dest: choice.help or "" for choice in action._choices_actions}
            return {name: (said[name], one) for name, one in action.choices.items()}
    return {}


def exit_codes(parser: argparse.ArgumentParser) -> str:
    """Return the sentence of a command's help about its exit codes."""
    _, found, text = (parser.epilog or "").partition("exit codes: ")
    assert found, parser.prog
    return cell(text)


def section(name: str) -> str:
    """Return what the page has about a command."""
    parser = parser_of(name)
    examples = (parser.epilog or "").partition("exit codes: ")[0].strip()
    text = f"## {name}\n\n{(parser.description or '').strip()}\n\n{table(parser, of_process=name == 'run')}"
    for action, (what, one) in actions_of(parser).items():
        text += f"### {name} {action}\n\n{what[:1].upper()}{what[1:]}.\n\n{table(one)}"
    if examples:
        text += f"```\n{examples}\n```\n\n"
    return f"{text}Exit codes: {exit_codes(parser)}.\n"


def reference() -> str:
    """Return the whole page."""
    index = "".join(f"| [{name}](#{name}) | {cell(what)} |\n" for name, what in COMMANDS.items())
    return f"{HEAD}| command | what it does |\n|---|---|\n{index}\n" + "\n".join(section(name) for name in COMMANDS)


def test_the_page_has_what_help_prints(request):
    if request.config.getoption("--update-golden"):
        PAGE.write_text(reference())
    else:
        assert PAGE.read_text() == reference(), "docs/reference/cli.md differs; --update-golden writes it again"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_exit_codes(name):
    codes = re.findall(r"(?:^|, )(\d) ", exit_codes(parser_of(name)))
    assert codes[0] == "0"
    assert len(codes) == len(set(codes)) > 1
