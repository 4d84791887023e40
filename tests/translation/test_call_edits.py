"""Calls that are split, cut or kept waiting, in a stream as in a whole reply (mapping.md 6.3, 17.1)."""

import json

import pytest

from proxy.canonical.errors import Error, ErrorClass
from proxy.canonical.events import Cite, Close, Delta, Event, Fail, Finish, Open, Ping, Start
from proxy.canonical.fold import Fold, unfold
from proxy.canonical.loss import LossReport
from proxy.canonical.parts import Call, Citation, ReplyPart, Text
from proxy.canonical.reply import Reply
from proxy.canonical.spelling import Spelling, ToolName
from proxy.canonical.stop import Stop
from proxy.canonical.target import Dialect, Target
from proxy.translation import pair
from proxy.translation.call_edits import (
    PARALLEL,
    CallEdit,
    CallEditing,
    OnlyFirst,
    SplitParallel,
    edit_reply,
)
from proxy.translation.ids import for_client
from proxy.translation.prepared import Prepared
from tests.harness.model_replies import Answer, write_whole
from tests.harness.model_replies import Call as Said
from tests.harness.wire import Protocol


def spelling() -> Spelling:
    return Spelling(
        {"ns__g": ToolName("g", "ns"), "bash": ToolName("bash", None, "typed", "bash")},
        encode=for_client("responses"),
        declared=frozenset({"f", "ns__g", "bash"}),
    )


def uses(*calls: tuple[str, object]) -> str:
    return json.dumps({"tool_uses": [{"recipient_name": name, "parameters": given} for name, given in calls]})


def streamed(edit: CallEdit, *parts: ReplyPart) -> list[ReplyPart]:
    """The parts that a stream of these parts folds to."""
    fold, editing = Fold(), CallEditing(edit)
    for event in unfold(Reply("r", "m", list(parts))):
        for passed in editing.pass_on([event]):
            fold.emit(passed)
    return fold.reply().parts


def whole(edit: CallEdit, *parts: ReplyPart) -> list[ReplyPart]:
    reply = Reply("r", "m", list(parts))
    edit_reply(reply, edit)
    return reply.parts


@pytest.mark.parametrize("through", [whole, streamed])
def test_parallel_calls_in_one_call_are_split(through: object) -> None:
    assert callable(through)
    arguments = uses(("functions.f", {"a": 1}), ("ns__g", {}), ("functions.bash", {"command": "ls"}))
    assert through(SplitParallel(spelling()), Text("A"), Call("c", PARALLEL, arguments), Call("d", "f", "{}")) == [
        Text("A"),
        Call("c-1", "f", '{"a":1}'),
        Call("c-2", "g", "{}", namespace="ns"),
        Call("c-3", "bash", '{"command":"ls"}', kind="typed", tool="bash"),
        Call("d", "f", "{}"),
    ]


@pytest.mark.parametrize("through", [whole, streamed])
@pytest.mark.parametrize(
    "arguments",
    [
        uses(("functions.f", {}), ("functions.unknown", {})),
        uses(("f", "text")),
        uses(),
        '{"tool_uses":3}',
        '{"tool_uses":[3]}',
        "[]",
        "{",
        "",
    ],
)
def test_what_names_no_declared_tools_reaches_the_client_unchanged(through: object, arguments: str) -> None:
    assert callable(through)
    assert through(SplitParallel(spelling()), Call("c", PARALLEL, arguments)) == [Call("c", PARALLEL, arguments)]


def test_ids_of_split_calls_keep_to_the_clients_limit() -> None:
    outer = "x" * 64
    calls = whole(SplitParallel(spelling()), Call(outer, PARALLEL, uses(("f", {}), ("f", {}))))
    ids = [call.id for call in calls if isinstance(call, Call)]
    assert (len(set(ids)), max(map(len, ids)) <= 64) == (2, True)


@pytest.mark.parametrize("through", [whole, streamed])
def test_only_the_first_call_is_left(through: object) -> None:
    assert callable(through)
    parts = (Text("A"), Call("c", "f", "{}"), Call("d", "f", '{"a":1}'), Text("B"), Call("e", "g", "{}"))
    losses = LossReport()
    assert through(OnlyFirst(losses), *parts) == [Text("A"), Call("c", "f", "{}"), Text("B")]
    assert {(loss.rule, loss.level) for loss in losses.losses} == {("parallel-enforced", "approx")}


def test_what_begins_behind_a_waiting_call_waits_with_it() -> None:
    split = CallEditing(SplitParallel(spelling()))
    outer, first = Call("c", PARALLEL), Open(0, Text(""))
    citation = Citation("url", url="https://e.test")
    arriving: list[Event] = [
        Start("r", "m"),
        first,
        Open(1, outer),
        Delta(0, "early"),
        Open(2, Call("d", "f")),
        Delta(2, "{}"),
        Ping(),
        Delta(1, uses(("f", {}), ("f", {}))),
        Close(0),
    ]
    assert split.pass_on(arriving) == [Start("r", "m"), first, Delta(0, "early"), Ping(), Close(0)]
    assert split.pass_on([Cite(0, citation), Close(1), Close(2), Finish(Stop("tool"))]) == [
        Cite(0, citation),
        Open(1, Call("c-1", "f")),
        Delta(1, "{}"),
        Close(1),
        Open(2, Call("c-2", "f")),
        Delta(2, "{}"),
        Close(2),
        Open(3, Call("d", "f")),
        Delta(3, "{}"),
        Close(3),
        Finish(Stop("tool")),
    ]


def test_a_stream_that_breaks_off_ends_what_waits() -> None:
    failure = Fail(Error(ErrorClass.BAD_GATEWAY, "gone"))
    split = CallEditing(SplitParallel(spelling()))
    assert split.pass_on([Open(0, Call("c", PARALLEL)), Open(1, Text("")), failure]) == [failure]


# --- in an exchange ---

TOOLS = [{"name": "f", "input_schema": {"type": "object"}}]
ANSWER = {
    "id": "1",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": f'{{"n":{n}}}'}}
                    for n in range(3)
                ],
            },
            "finish_reason": "tool_calls",
        }
    ],
}


def asked(dialect: Dialect) -> Prepared:
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": TOOLS,
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    }
    return pair.prepare(
        pair.peek("messages", json.dumps(body).encode()), Target("chat", "there", dialect), pair.Options()
    )


def test_a_backend_that_takes_the_flag_gets_it_and_is_trusted() -> None:
    prepared = asked(Dialect())
    assert json.loads(prepared.body)["parallel_tool_calls"] is False
    assert len(json.loads(prepared.reply(json.dumps(ANSWER).encode()))["content"]) == 3


def test_calls_after_the_first_are_cut_where_the_backend_has_no_flag() -> None:
    prepared = asked(Dialect(no_parallel_flag=True))
    assert "parallel_tool_calls" not in json.loads(prepared.body)
    assert [(loss.rule, loss.level, loss.path) for loss in prepared.losses] == [
        ("parallel-enforced", "approx", "tool_choice.disable_parallel_tool_use")
    ]
    reply = json.loads(prepared.reply(json.dumps(ANSWER).encode()))
    assert [block["input"] for block in reply["content"]] == [{"n": 0}]
    assert reply["stop_reason"] == "tool_use"


@pytest.mark.parametrize("backend", ["messages", "responses"])
def test_the_deprecated_functions_ask_for_one_call_and_show_one(backend: Protocol) -> None:
    legacy = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "functions": [{"name": "look"}]}
    asked = pair.prepare(
        pair.peek("chat", json.dumps(legacy).encode()), Target(backend, "m", Dialect()), pair.Options()
    )
    sent = json.loads(asked.body)
    if backend == "messages":
        assert sent["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    else:
        assert sent["parallel_tool_calls"] is False
    answer = Answer("m", calls=(Said("call_1", "look", {"at": 1}), Said("call_2", "look", {"at": 2})))
    choice = json.loads(asked.reply(json.dumps(write_whole(backend, answer)).encode()))["choices"][0]
    called = choice["message"]["function_call"]
    assert (called["name"], json.loads(called["arguments"])) == ("look", {"at": 1})
    assert choice["finish_reason"] == "function_call"
    assert "parallel-enforced" in {loss.rule for loss in asked.losses}
