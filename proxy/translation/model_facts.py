"""What a Messages backend itself says of its models (`GET /v1/models`), which is trusted before any table.

Backends may say nothing, or leave parts out: what is not said stays as it was known (mapping.md 18, messages.md 4.2).
"""

from dataclasses import dataclass, replace

from proxy.canonical.request import Effort
from proxy.canonical.target import ModelProfile, ThinkingType
from proxy.protocols.fields import Wire, is_object

_THINKING: tuple[tuple[str, ThinkingType], ...] = (
    ("adaptive", "adaptive"),
    ("enabled", "budget"),
    ("between_tools", "between_tools"),
)
_EFFORTS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """None: not told. The fields are those of `ModelProfile`."""

    max_output: int | None = None
    efforts: tuple[Effort, ...] | None = None
    thinking: tuple[ThinkingType, ...] | None = None
    thinking_off: bool | None = None
    structured: bool | None = None

    def over(self, known: ModelProfile, model: str) -> ModelProfile:
        """`known` with these facts; a model that only its backend knows is no longer unknown."""
        return replace(
            known,
            name=model if known.unknown else known.name,
            max_output=self.max_output or known.max_output,
            efforts=known.efforts if self.efforts is None else self.efforts,
            thinking=known.thinking if self.thinking is None else self.thinking,
            thinking_off=known.thinking_off if self.thinking_off is None else self.thinking_off,
            structured=known.structured if self.structured is None else self.structured,
        )


def read_facts(entry: Wire) -> ModelFacts | None:
    """The facts in an entry of a list of models; None when it tells none. Never fails."""
    limit = entry.get("max_tokens")
    capabilities = _object(entry, "capabilities")
    thinking, efforts = _object(capabilities, "thinking"), _object(capabilities, "effort")
    types = _object(thinking, "types")
    facts = ModelFacts(max_output=limit if type(limit) is int and limit > 0 else None)
    if thinking.get("supported") is False:
        facts = replace(facts, thinking=())
    elif types:
        accepted = tuple(ours for theirs, ours in _THINKING if _supported(types, theirs))
        facts = replace(facts, thinking=accepted, thinking_off=_supported(types, "disabled"))
    if efforts:
        accepted_efforts = tuple(level for level in _EFFORTS if _supported(efforts, level))
        facts = replace(facts, efforts=accepted_efforts if efforts.get("supported") is not False else ())
    facts = replace(facts, structured=_supported(capabilities, "structured_outputs"))
    return facts if facts != ModelFacts() else None


def _object(wire: Wire, name: str) -> Wire:
    value = wire.get(name)
    return value if is_object(value) else {}


def _supported(wire: Wire, name: str) -> bool | None:
    """None: not told."""
    told = _object(wire, name).get("supported")
    return told if type(told) is bool else None
