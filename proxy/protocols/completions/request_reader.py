"""Read a legacy text completion request: its prompt is the one turn of the user (mapping.md 16.3).

No backend is asked at its own completions endpoint, so whatever that endpoint alone can do is refused.
"""

from proxy.canonical.loss import LossReport, Rule
from proxy.canonical.parts import Text, Turn
from proxy.canonical.request import Limits, Request
from proxy.protocols.fields import Wire, flag, invalid, kind, need_text, report_unknown, text, whole
from proxy.protocols.openai_completions import read_end_user, read_include_usage, read_sampling, read_stop

DEFAULT_MAX_TOKENS = 16  # this protocol's own (chat_completions.md 13)

_FIELDS = frozenset(
    {
        "model",
        "prompt",
        "best_of",
        "echo",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_tokens",
        "n",
        "presence_penalty",
        "seed",
        "stop",
        "stream",
        "stream_options",
        "suffix",
        "temperature",
        "top_p",
        "user",
        # What other servers added to it.
        "top_k",
        "min_p",
        "repetition_penalty",
    }
)


def read_request(wire: Wire, losses: LossReport) -> Request:
    """The request in `wire`. Raises `Rejected` that names the field which is wrong or can't be served."""
    if not wire.keys() <= _FIELDS:
        report_unknown(wire, _FIELDS, (), losses)
    model = need_text(wire, "model", ())
    prompt = _read_prompt(wire, losses)
    _refuse(wire, losses)
    return Request(
        origin="completions",
        model=model,
        turns=[Turn("user", [Text(prompt)], at=("prompt",))],
        sampling=read_sampling(wire),
        limits=_read_limits(wire),
        identity=read_end_user(wire),
        stream=flag(wire, "stream", ()) or False,
        include_usage=read_include_usage(wire, losses),
    )


def _read_prompt(wire: Wire, losses: LossReport) -> str:
    """A string, or a list with one string; token ids mean something only to the model that counts by them."""
    prompt = wire.get("prompt")
    if type(prompt) is list and len(prompt) == 1 and type(prompt[0]) is str:
        return prompt[0]
    if type(prompt) is str:
        return prompt
    if prompt is None:
        invalid(("prompt",), "this field is required.", code="missing_required_parameter")
    if type(prompt) is not list or not prompt:
        invalid(("prompt",), f"expected a string or a list with one string, got {kind(prompt)}.")
    losses.refuse(Rule.PROMPT, ("prompt",), "only one prompt, written as text, can be sent.")


def _refuse(wire: Wire, losses: LossReport) -> None:
    """Fields that no chat can honour."""
    if text(wire, "suffix", ()):
        losses.refuse(Rule.SUFFIX, ("suffix",), "text can't be inserted before a suffix.")
    if flag(wire, "echo", ()):
        losses.refuse(Rule.ECHO, ("echo",), "the prompt can't be repeated in the answer.")
    if (whole(wire, "best_of", ()) or 1) > max(1, whole(wire, "n", ()) or 1):
        losses.refuse(Rule.BEST_OF, ("best_of",), "no more answers can be asked for than are wanted.")
    if whole(wire, "logprobs", ()) is not None:
        losses.drop(Rule.LOGPROBS, ("logprobs",))


def _read_limits(wire: Wire) -> Limits:
    limit = whole(wire, "max_tokens", ())
    if limit is not None and limit < 0:
        invalid(("max_tokens",), "expected a value of at least 0.", code="integer_below_min_value")
    limits = Limits(max_output=DEFAULT_MAX_TOKENS if limit is None else limit, max_output_at=("max_tokens",))
    limits.prewarm = limit == 0  # no text is wanted, only the work on the prompt
    read_stop(wire, limits)
    return limits
