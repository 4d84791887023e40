"""Durations and sizes as people write them: `30s`, `1m30s`, `500ms`; `32MiB`, `4096`."""

import re

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")

_BYTES = {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(r"(\d+)\s*([A-Za-z]*)")


def parse_duration(value: object) -> float:
    """Seconds. A bare number is refused, since `30` may be meant as milliseconds; only `0` needs no unit."""
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if text == "0":
        return 0.0
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{value!r} is not a duration: write a number with a unit, such as 30s, 500ms or 5m")
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text))


def parse_size(value: object) -> int:
    """Bytes."""
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    matched = _SIZE.fullmatch(text)
    if not matched or matched[2] not in _BYTES:
        raise ValueError(f"{value!r} is not a size: write bytes, or a number with a unit, such as 32MiB")
    return int(matched[1]) * _BYTES[matched[2]]
