"""What the operator says of losses, for a model or a tenant (mapping.md 0.2)."""

from dataclasses import dataclass

from proxy.canonical.loss import Loss, Rule


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
