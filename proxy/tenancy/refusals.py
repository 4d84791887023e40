"""What a client is told that may not do what it asked for (operations.md 10)."""

from proxy.canonical.errors import Error, ErrorClass, Reason
from proxy.canonical.loss import Path, format_path

_SHOWN = 128  # characters of a name that a client wrote


def unknown_model(model: str, param: str = "model") -> Error:
    """One text for models that are unknown and that are not allowed: it must not tell which exist."""
    return Error(
        ErrorClass.MODEL_NOT_FOUND,
        f"The model '{shown(model)}' does not exist or you do not have access to it.",
        param=param,
        reason=Reason.MODEL_DENIED,
    )


def denied(reason: Reason, message: str, path: Path = ()) -> Error:
    """A 403. The message names the place as well, since Messages has no other room for it."""
    at = format_path(path)
    said = f"{at}: {message}" if at else message
    return Error(ErrorClass.PERMISSION, said, code=f"dragoman_{reason.value}", param=at or None, reason=reason)


def malformed(path: Path, problem: str) -> Error:
    """A 400. `problem` reads after the field's name."""
    at = format_path(path)
    message = f"{at}: {problem}" if at else problem
    return Error(ErrorClass.INVALID, message, param=at or None, reason=Reason.MALFORMED)


def shown(name: str) -> str:
    """A name that a client wrote, as an error may repeat it."""
    return name[:_SHOWN]
