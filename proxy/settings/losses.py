"""What the operator says of losses, for a model or a tenant (mapping.md 0.2)."""

from dataclasses import dataclass

from proxy.canonical.loss import Loss, Rule
from proxy.settings.spelling import did_you_mean

LOSS_MODES = ("off", "report", "strict")
_LOSS_KEYS = ("mode", "refuse", "ignore")


@dataclass(frozen=True, slots=True)
class LossPolicy:
    """`shown`: name them in the reply's header, except those of `ignored`. `strict`: refuse every drop. `refused`:
    refuse these rules.
    """

    shown: bool = True
    strict: bool = False
    refused: frozenset[Rule] = frozenset()
    ignored: frozenset[Rule] = frozenset()

    def shows(self, loss: Loss) -> bool:
        """Whether a loss may be named. A refusal is never hidden: it is why there is no answer."""
        return loss.level == "refuse" or loss.rule not in self.ignored

    def with_other(self, other: "LossPolicy") -> "LossPolicy":
        """The strictest of both."""
        return LossPolicy(
            self.shown or other.shown,
            self.strict or other.strict,
            self.refused | other.refused,
            (self.ignored & other.ignored) - self.refused - other.refused,
        )


UNSAID = LossPolicy()  # where nothing is configured


def parse_loss(value: object) -> LossPolicy:
    """A mode, a list of rules to refuse, or a mapping that says both and what not to show."""
    if isinstance(value, str) and value in LOSS_MODES:
        return _loss_policy(value, [], [])
    if isinstance(value, list):
        return _loss_policy("report", value, [])
    if not isinstance(value, dict):
        raise ValueError("must be off, report, strict, a list of rules to refuse, or {mode, refuse, ignore}")
    for key in value:
        if key not in _LOSS_KEYS:
            raise ValueError(f"{key!r} is not a key here{did_you_mean(key, _LOSS_KEYS)}")
    return _loss_policy(value.get("mode", "report"), value.get("refuse", []), value.get("ignore", []))


def _loss_policy(mode: object, refuse: object, ignore: object) -> LossPolicy:
    if mode not in LOSS_MODES:
        raise ValueError(f"mode must be off, report or strict{did_you_mean(mode, LOSS_MODES)}")
    refused, ignored = _loss_rules("refuse", refuse), _loss_rules("ignore", ignore)
    if both := refused & ignored:
        raise ValueError(f"{min(both).value!r} can't be both refused and ignored")
    return LossPolicy(mode != "off", mode == "strict", refused, ignored)


def _loss_rules(key: str, value: object) -> frozenset[Rule]:
    if not isinstance(value, list):
        raise ValueError(f"{key} must be a list of rules")
    return frozenset(map(_loss_rule, value))


def _loss_rule(value: object) -> Rule:
    try:
        return Rule(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is not a rule{did_you_mean(value, Rule)}") from None
