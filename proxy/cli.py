"""The command `dragoman`.

What a command needs is imported when it runs, so that `dragoman check` loads no server.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from proxy import __version__
from proxy.commands import config, keys, policy
from proxy.settings import (
    Loaded,
    NothingToServe,
    SettingsError,
    UnreadableFile,
    from_environment,
    load,
    load_with_sources,
)
from proxy.settings.env_file import read_env_file

Command = Callable[[argparse.Namespace], int]

_OK = 0
_MISTAKES = 1
_UNUSABLE = 2

_PROTOCOLS = ("chat", "responses", "messages")
_VENDORS = {"chat": "openai", "responses": "openai", "messages": "anthropic"}

_WAYS_TO_START = """\
There is nothing to serve yet. Three ways to start:

  dragoman serve --demo             a scripted backend, no key needed
  dragoman serve                    with ANTHROPIC_API_KEY or OPENAI_API_KEY set, or both
  dragoman serve --config FILE      backends of your choice; config/dragoman.yaml is an example
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    parsed = _parser().parse_args(arguments)
    command: Command = parsed.command
    try:
        return command(parsed)
    except BrokenPipeError:
        # Who reads it has seen enough. What is still buffered would fail once more at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dragoman", description="Translate between the wire protocols of LLM APIs.")
    parser.add_argument("--version", action="version", version=f"dragoman {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="serve clients")
    source = serve.add_mutually_exclusive_group()
    source.add_argument(
        "--config", metavar="FILE", help="the configuration, or its folder; without it the environment is enough"
    )
    source.add_argument("--demo", action="store_true", help="answer from a scripted backend that needs no key")
    serve.add_argument("--listen", metavar="HOST:PORT", help="where clients connect")
    serve.add_argument("--admin-listen", metavar="HOST:PORT", help="where probes connect")
    serve.set_defaults(command=_serve)

    check = commands.add_parser("check", help="say what is wrong with a configuration")
    check.add_argument("files", metavar="FILE", nargs="+", help="a configuration, or its folder")
    check.add_argument("--env-file", metavar="FILE", help="NAME=value lines, over the variables of the environment")
    check.set_defaults(command=_check)

    losses = commands.add_parser("losses", help="list all that a translation may lose, and what is done about it")
    losses.add_argument("--json", action="store_true", help="as JSON, one object a rule")
    losses.set_defaults(command=_losses)

    config.add(commands)
    keys.add(commands)
    policy.add(commands)

    translate = commands.add_parser("translate", help="translate one message and show what was lost")
    kinds = translate.add_subparsers(required=True, metavar="KIND")
    for kind in ("request", "reply", "stream"):
        one = kinds.add_parser(kind, help=f"translate one {kind}")
        one.add_argument("--from", dest="source", choices=_PROTOCOLS, required=True, help="the protocol it is in")
        one.add_argument("--to", dest="target", choices=_PROTOCOLS, required=True, help="the protocol to write")
        one.add_argument("--model", help="the backend's name for the model; default: the one in the message")
        one.add_argument("--dialect", help="the backend's dialect; default: the vendor's own")
        one.add_argument("file", metavar="FILE", nargs="?", help="default: standard input")
        one.set_defaults(command=_translate, kind=kind)
    return parser


def _serve(parsed: argparse.Namespace) -> int:
    try:
        loaded = _loaded(parsed)
    except NothingToServe:
        print(_WAYS_TO_START, file=sys.stderr, end="")
        return _UNUSABLE
    except SettingsError as error:
        print(error, file=sys.stderr)
        return _MISTAKES

    from proxy.server import run

    again = None if not parsed.config else partial(_loaded, parsed)
    return run(loaded, again, demo=parsed.demo)


def _loaded(parsed: argparse.Namespace) -> Loaded:
    given = {"listen": parsed.listen, "admin_listen": parsed.admin_listen}
    options = {name: value for name, value in given.items() if value is not None}
    if parsed.config:
        return load_with_sources(parsed.config, os.environ, options)
    return Loaded(from_environment(os.environ, parsed.demo, options))


def _check(parsed: argparse.Namespace) -> int:
    """0: all are valid, 1: there are mistakes, 2: a file can't be read at all."""
    code = _OK
    try:
        environ = {**os.environ, **(read_env_file(Path(parsed.env_file)) if parsed.env_file else {})}
    except SettingsError as error:
        print(error)
        return _UNUSABLE
    for file in parsed.files:
        try:
            load(file, environ)
            print(f"{file}: valid")
        except SettingsError as error:
            print(error)
            code = max(code, _UNUSABLE if isinstance(error, UnreadableFile) else _MISTAKES)
    return code


def _losses(parsed: argparse.Namespace) -> int:
    """The closed table of rules: id, levels, sections of mapping.md, meaning."""
    from proxy.canonical.loss_rules import ABOUT

    if parsed.json:
        import json

        rows = [
            {"rule": rule, "levels": about.levels, "sections": about.sections, "meaning": about.text}
            for rule, about in ABOUT.items()
        ]
        print(json.dumps(rows, indent=1))
        return _OK
    columns = [("rule", "levels", "sections", "meaning")]
    columns += [(rule, ",".join(about.levels), ",".join(about.sections), about.text) for rule, about in ABOUT.items()]
    widths = [max(len(row[column]) for row in columns) for column in range(3)]
    # Printed at once, so that a reader who stops after a few lines stops nothing.
    print("\n".join("  ".join([*map(str.ljust, cells, widths), meaning]) for *cells, meaning in columns))
    return _OK


def _translate(parsed: argparse.Namespace) -> int:
    """0: translated, 1: refused, and what is printed is the error a client gets, 2: not even tried."""
    kind: Literal["request", "reply", "stream"] = parsed.kind
    # A request goes from the client to the backend, a reply the other way.
    client, backend = (parsed.source, parsed.target) if kind == "request" else (parsed.target, parsed.source)
    try:
        message = Path(parsed.file).read_bytes() if parsed.file else sys.stdin.buffer.read()
    except OSError as error:
        print(f"{parsed.file}: can't be read: {error.strerror}", file=sys.stderr)
        return _UNUSABLE

    from proxy.upstream.dialects import UnknownDialect, dialect_for

    try:
        dialect = dialect_for(backend, "", parsed.dialect or _VENDORS[backend], {})
    except UnknownDialect as error:
        print(f"--dialect: {error}", file=sys.stderr)
        return _UNUSABLE

    from proxy.translation import dryrun

    translated = dryrun.run(kind, client, backend, message, parsed.model, dialect)
    sys.stdout.buffer.write(translated.output)
    sys.stdout.buffer.flush()
    for loss in translated.losses:
        print(f"loss: {loss}", file=sys.stderr)
    return _MISTAKES if translated.refused else _OK
