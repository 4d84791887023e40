"""Reading fields of a client's JSON: the type is checked where the value is used.

Each function takes the object, the field's name and the object's path, returns None for an absent field or a
JSON null (mapping.md 0.3), and raises `Rejected` that names the field when the type is wrong.
"""

from typing import NoReturn, TypeGuard

from proxy.canonical.errors import Error, ErrorClass, Reason, Rejected
from proxy.canonical.loss import LossReport, Path, Rule, format_path

Wire = dict[str, object]


def invalid(path: Path, problem: str, code: str | None = None) -> NoReturn:
    """Refuse the request because of the field at `path`. `problem` reads after the field's name."""
    at = format_path(path)
    raise Rejected(Error(ErrorClass.INVALID, f"{at}: {problem}", code=code, param=at, reason=Reason.MALFORMED))


def _wrong(value: object, name: str, path: Path, wanted: str) -> NoReturn:
    invalid((*path, name), f"expected {wanted}, got {kind(value)}.")


def kind(value: object) -> str:
    """What JSON calls a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "an array"
        case _:
            return "an object"


def is_object(value: object) -> TypeGuard[Wire]:
    """Whether the value is a JSON object (whose keys are strings by construction)."""
    return type(value) is dict


def text(wire: Wire, name: str, path: Path) -> str | None:
    """A string."""
    value = wire.get(name)
    if value is None or type(value) is str:
        return value
    _wrong(value, name, path, "a string")


def need_text(wire: Wire, name: str, path: Path) -> str:
    """A string that must be there."""
    value = wire.get(name)
    if type(value) is str:
        return value
    if value is None:
        invalid((*path, name), "this field is required.", code="missing_required_parameter")
    _wrong(value, name, path, "a string")


def flag(wire: Wire, name: str, path: Path) -> bool | None:
    """A boolean."""
    value = wire.get(name)
    if value is None or type(value) is bool:
        return value
    _wrong(value, name, path, "a boolean")


def whole(wire: Wire, name: str, path: Path) -> int | None:
    """An integer; a float without fraction counts as one."""
    value = wire.get(name)
    if value is None or type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    _wrong(value, name, path, "an integer")


def number(wire: Wire, name: str, path: Path) -> float | None:
    """A number; integers stay integers."""
    value = wire.get(name)
    if value is None or type(value) is float or type(value) is int:
        return value
    _wrong(value, name, path, "a number")


def mapping(wire: Wire, name: str, path: Path) -> Wire | None:
    """An object."""
    value = wire.get(name)
    if value is None or type(value) is dict:
        return value
    _wrong(value, name, path, "an object")


def array(wire: Wire, name: str, path: Path) -> list[object] | None:
    """An array of anything."""
    value = wire.get(name)
    if value is None or type(value) is list:
        return value
    _wrong(value, name, path, "an array")


def texts(wire: Wire, name: str, path: Path) -> list[str] | None:
    """An array of strings."""
    values = array(wire, name, path)
    if values is None:
        return None
    found: list[str] = []
    for index, value in enumerate(values):
        if type(value) is not str:
            invalid((*path, name, index), f"expected a string, got {kind(value)}.")
        found.append(value)
    return found


def as_object(value: object, path: Path) -> Wire:
    """`value`, which must be an object."""
    if type(value) is dict:
        return value
    invalid(path, f"expected an object, got {kind(value)}.")


def one_of(wire: Wire, name: str, allowed: frozenset[str], path: Path) -> str | None:
    """A string out of a closed set."""
    value = text(wire, name, path)
    if value is None or value in allowed:
        return value
    options = ", ".join(f"'{option}'" for option in sorted(allowed))
    invalid((*path, name), f"'{value}' is not one of {options}.", code="invalid_value")


def report_unknown(wire: Wire, known: frozenset[str], path: Path, losses: LossReport) -> None:
    """Record each field that no sheet knows; call it only when `wire.keys() - known` is not empty."""
    for name in sorted(wire.keys() - known):  # sets differ between processes, reports must not
        if wire[name] is not None:
            losses.drop(Rule.UNKNOWN_FIELD, (*path, name))
