"""`dragoman keys`: make, rotate, list, revoke and check tenants' keys (operations.md 8.1, 8.2)."""

import argparse
import time
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from proxy.settings.units import parse_duration
from proxy.settings.values import Moment

_LAST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
_MOMENTS: TypeAdapter[float] = TypeAdapter(Moment)


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    keys = commands.add_parser("keys", help="make, rotate, list, revoke and check tenants' keys")
    kinds = keys.add_subparsers(required=True, metavar="ACTION")

    new = _action(kinds, "new", "make a key, and print it once")
    new.add_argument("tenant", metavar="TENANT")
    new.add_argument("--expires", metavar="WHEN", type=_moment, help="such as 90d, or 2027-01-15; default: never")
    new.add_argument("--not-before", metavar="WHEN", type=_moment, help="default: it is good at once")
    _add_config(new, required=False, writes=True)

    rotate = _action(kinds, "rotate", "make a key, and let those before it end")
    rotate.add_argument("tenant", metavar="TENANT")
    rotate.add_argument("--overlap", metavar="DURATION", type=_duration, required=True, help="how long both are good")
    rotate.add_argument("--kid", help="the only one to end; default: all of the tenant")
    _add_config(rotate, required=True, writes=True)

    listing = _action(kinds, "list", "list keys with their states")
    listing.add_argument("tenant", metavar="TENANT", nargs="?", help="default: all")
    listing.add_argument("--json", action="store_true", help="as JSON, one object a key")
    _add_config(listing, required=True, writes=False)

    revoke = _action(kinds, "revoke", "take a key away")
    revoke.add_argument("kid", metavar="KID", help="the 12 characters behind drg_")
    _add_config(revoke, required=True, writes=True)

    check = _action(kinds, "check", "say what is known of a key, which is read from standard input")
    _add_config(check, required=False, writes=False)


def _action(
    kinds: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, about: str
) -> argparse.ArgumentParser:
    parser = kinds.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
    parser.set_defaults(command=_run, action=name)
    return parser


def _add_config(parser: argparse.ArgumentParser, *, required: bool, writes: bool) -> None:
    parser.add_argument("--config", metavar="FILE", type=Path, required=required, help="a configuration, or its folder")
    if writes:
        parser.add_argument("--write", action="store_true", help="change the file; default: say what to change")


def _run(parsed: argparse.Namespace) -> int:
    from proxy.commands.key_actions import run

    return run(parsed.action, parsed)


def _moment(text: str) -> float:
    """Unix seconds of a time, or of what is so long from now."""
    try:
        moment = time.time() + parse_duration(text)
    except ValueError:
        try:
            moment = _MOMENTS.validate_python(text)
        except ValidationError as error:
            message = error.errors()[0]["ctx"]["error"]
            raise argparse.ArgumentTypeError(f"{message}, or a duration such as 90d") from None
    if moment > _LAST:
        raise argparse.ArgumentTypeError("is too far away")
    return moment


def _duration(text: str) -> float:
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if time.time() + duration > _LAST:
        raise argparse.ArgumentTypeError("is too long")
    return duration
