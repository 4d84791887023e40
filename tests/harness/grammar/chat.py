"""The grammar of a Chat Completions stream."""

from typing import Literal, TypeAlias

from tests.harness.grammar.findings import End, Findings, Shape
from tests.harness.wire import EventStream, Json

# A finish is the last when no other choice is still to come to its own.
Kind: TypeAlias = Literal["delta", "finish", "last finish", "usage", "error"]
State: TypeAlias = Literal["new", "open", "finished", "counted", "failed"]

# What may follow what. `[DONE]` is not an event; where it may stand is in DONE_AFTER.
ORDER: dict[tuple[State, Kind], State] = {
    ("new", "delta"): "open",
    ("new", "finish"): "open",
    ("new", "last finish"): "finished",
    ("new", "error"): "failed",
    ("open", "delta"): "open",
    ("open", "finish"): "open",
    ("open", "last finish"): "finished",
    ("open", "error"): "failed",
    ("finished", "usage"): "counted",
}
# Servers also send chunks without choices before the first delta, late deltas after the finish, and choices one by one.
ORDER_PASSED_THROUGH: dict[tuple[State, Kind], State] = {
    ("new", "usage"): "new",
    ("open", "usage"): "open",
    ("finished", "delta"): "finished",
    ("finished", "last finish"): "finished",
    ("counted", "usage"): "counted",
}
DONE_AFTER: set[State] = {"finished", "counted"}

FINISH_REASONS = {"stop", "length", "tool_calls", "content_filter", "function_call"}

CHUNK: Shape = {"id": str, "object": "chat.completion.chunk", "choices": list}
OUR_CHUNK: Shape = {"created": int, "model": str}
CHOICE: Shape = {"index": int, "delta": dict}
OUR_CHOICE: Shape = {"finish_reason": (str, None)}
DELTA_TYPES: dict[str, Json] = {
    "role": "assistant",
    "content": (str, None),
    "refusal": (str, None),
    "reasoning_content": (str, None),
    "reasoning_details": list,
    "annotations": list,
    "tool_calls": list,
    "function_call": dict,
}
SENT_ONCE = ("role", "annotations", "reasoning_details")
USAGE: Shape = {"prompt_tokens": int, "completion_tokens": int, "total_tokens": int}
ERROR: Shape = {"message": str, "type": (str, None), "param": (str, None), "code": (str, None)}

OPENING: dict[str, Shape] = {
    "function": {"name": str, "arguments": ""},
    "custom": {"name": str, "input": ""},
}
CONTINUING: dict[str, Shape] = {"function": {"arguments": str}, "custom": {"input": str}}


def check_chat(stream: EventStream, expect_end: End, findings: Findings, choices: int) -> None:
    _ChatChecker(findings, choices).check(stream, expect_end)


class _ChatChecker:
    def __init__(self, findings: Findings, choices: int) -> None:
        self._findings = findings
        self._wanted = choices
        self._choices: dict[int, _ChoiceChecker] = {}
        self._state: State = "new"
        self._shared: dict[str, Json] = {}
        self._usage_keys: list[bool] = []

    def check(self, stream: EventStream, expect_end: End) -> None:
        always, ours = self._findings.always, self._findings.ours
        for event in stream.events:
            ours(self._state != "failed", "something follows the error")
            self._chunk(event.data)
        if expect_end == "error":
            always(self._state == "failed", "no error is told")
            always(self._unfinished > 0, "an answer that failed has a finish_reason")
            always(not stream.done, "[DONE] after an error")
            return
        always(self._state != "failed", "an error is told")
        ours(len(self._choices) == self._wanted, f"{len(self._choices)} choices in place of {self._wanted}")
        always(self._unfinished == 0, "no finish_reason")
        always(stream.done, "no [DONE] at the end")
        always(not stream.done or self._state in DONE_AFTER, "[DONE] before the finish")
        if any(self._usage_keys):
            ours(all(self._usage_keys), "there is a usage chunk, but not every other chunk says usage: null")

    def _chunk(self, chunk: Json) -> None:
        findings = self._findings
        if "error" in chunk:
            findings.has_shape(chunk["error"], {"message": str}, "error", always=True)
            findings.has_shape(chunk["error"], ERROR, "error")
            self._step("error")
            return
        if not findings.has_shape(chunk, CHUNK, "chunk", always=True):
            return
        findings.has_shape(chunk, OUR_CHUNK, "chunk")
        findings.always(self._shared.setdefault("id", chunk["id"]) == chunk["id"], "several ids")
        for field in ("created", "model"):
            findings.ours(self._shared.setdefault(field, chunk.get(field)) == chunk.get(field), f"several {field}")
        self._usage_keys.append("usage" in chunk)
        if not chunk["choices"]:
            self._step("usage")
            findings.has_shape(chunk.get("usage"), USAGE, "usage")
            return
        findings.ours(len(chunk["choices"]) == 1, "several choices in a chunk")
        findings.ours(chunk.get("usage") is None, "usage in a chunk with choices")
        for choice in chunk["choices"]:
            if findings.has_shape(choice, CHOICE, "choice", always=True):
                findings.has_shape(choice, OUR_CHOICE, "choice")
                self._choice(choice)

    def _step(self, kind: Kind) -> None:
        following = ORDER.get((self._state, kind))
        self._findings.ours(following is not None, f"{kind} chunk while {self._state}")
        following = following or ORDER_PASSED_THROUGH.get((self._state, kind))
        self._findings.always(following is not None, f"{kind} chunk while {self._state}")
        self._state = following or self._state

    @property
    def _unfinished(self) -> int:
        """Choices that have no finish_reason, those that have not even begun among them."""
        finished = sum(choice.finish_reason is not None for choice in self._choices.values())
        return max(self._wanted, len(self._choices)) - finished

    def _choice(self, wire: Json) -> None:
        findings, index = self._findings, wire["index"]
        choice = self._choices.get(index)
        if choice is None:
            # The vendor's helper keeps choices in the order in which they come.
            findings.ours(index == len(self._choices) < self._wanted, f"choice {index} after {len(self._choices)}")
            choice = self._choices[index] = _ChoiceChecker(findings)
        late = choice.finish_reason is not None and self._state == "open"
        findings.ours(not late, "a chunk of a choice that has finished")
        choice.check(wire)
        finishes = bool(wire.get("finish_reason"))
        self._step(("finish" if self._unfinished else "last finish") if finishes else "delta")


class _ChoiceChecker:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._fields_seen: set[str] = set()
        self._call_kinds: list[str] = []
        self.finish_reason: str | None = None

    def check(self, choice: Json) -> None:
        findings, delta, reason = self._findings, choice["delta"], choice.get("finish_reason")
        if reason:
            findings.always(self.finish_reason is None, "a second finish_reason")
            findings.ours(reason in FINISH_REASONS, f"finish_reason {reason}")
            findings.ours(not delta, "the finish chunk has a delta")
            self.finish_reason = reason
        self._delta(delta)
        if reason == "tool_calls":
            findings.ours(bool(self._call_kinds), "finish_reason tool_calls without a call")
        elif reason == "stop":
            findings.ours(not self._call_kinds, "finish_reason stop in spite of calls")

    def _delta(self, delta: Json) -> None:
        findings = self._findings
        findings.ours("role" in self._fields_seen or "role" in delta, "the first delta has no role")
        types = {field: DELTA_TYPES.get(field, ()) for field in delta}
        findings.has_shape(delta, types, "delta")
        for field in SENT_ONCE:
            findings.ours(not (field in delta and field in self._fields_seen), f"{field} comes twice")
        for field in ("annotations", "reasoning_details"):
            for entry in delta.get(field) or ():
                findings.ours(isinstance(entry.get("index"), int), f"an entry of {field} has no index")
        self._fields_seen.update(delta)
        for fragment in delta.get("tool_calls") or ():
            self._fragment(fragment)

    def _fragment(self, fragment: Json) -> None:
        findings = self._findings
        if not findings.has_shape(fragment, {"index": int}, "call", always=True):
            return
        index = fragment["index"]
        if 0 <= index < len(self._call_kinds):
            kind = self._call_kinds[index]
            findings.ours(set(fragment) == {"index", kind}, "a later fragment of a call repeats more than its index")
            findings.has_shape(fragment.get(kind), CONTINUING[kind], "a later fragment of a call")
            findings.ours(set(fragment.get(kind) or ()) <= set(CONTINUING[kind]), "a call's name comes twice")
            return
        findings.always(index == len(self._call_kinds), f"call index {index} after {len(self._call_kinds)} calls")
        kind = "custom" if "custom" in fragment else "function"
        body = fragment.get(kind) or {}
        findings.always(bool(fragment.get("id")) and bool(body.get("name")), "a call starts without id and name")
        findings.ours(fragment.get("type") == kind, "a call starts without its type")
        findings.has_shape(body, OPENING[kind], "the start of a call")
        self._call_kinds.append(kind)
