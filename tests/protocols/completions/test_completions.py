"""The legacy text completions: requests, answers, streams."""

import json
from typing import Any

import pytest

from proxy.canonical.errors import Error, ErrorClass, Rejected
from proxy.canonical.events import Close, Delta, End, Event, Fail, Finish, Open, Ping, Start, UsageUpdate
from proxy.canonical.fold import unfold
from proxy.canonical.loss import Loss, LossReport, Rule
from proxy.canonical.parts import Call, Reasoning, ReplyPart, Text, Turn
from proxy.canonical.reply import Reply, ReplyContext
from proxy.canonical.request import Identity, Limits, Request, Sampling
from proxy.canonical.stop import Stop
from proxy.canonical.usage import Usage
from proxy.protocols.completions import StreamWriter, read_request, write_reply
from tests.protocols.chat.stray import STRAY

Wire = dict[str, Any]
CONTEXT = ReplyContext("req_1", "asked", now=7)


def read(**fields: Any) -> tuple[Request, list[Loss]]:
    losses = LossReport("Messages")
    return read_request({"model": "m", "prompt": "Once", **fields}, losses), losses.losses


def refusal(**fields: Any) -> Error:
    with pytest.raises(Rejected) as caught:
        read(**fields)
    return caught.value.error


@pytest.mark.parametrize("prompt", ["Once", ["Once"]])
def test_the_prompt_is_the_one_turn_of_the_user(prompt: object) -> None:
    assert read(prompt=prompt) == (
        Request(
            "completions",
            "m",
            turns=[Turn("user", [Text("Once")], at=("prompt",))],
            limits=Limits(16, ("max_tokens",)),
        ),
        [],
    )


def test_every_field_that_a_chat_can_honour() -> None:
    request, losses = read(
        max_tokens=9,
        temperature=0.5,
        top_p=0.9,
        top_k=4,
        seed=7,
        presence_penalty=1,
        frequency_penalty=-1,
        logit_bias={"5": 1},
        n=1,
        stop="END",
        stream=True,
        stream_options={"include_usage": True},
        user="u",
        logprobs=2,
        best_of=1,
        echo=False,
        suffix=None,
        wish=1,
    )
    assert request == Request(
        "completions",
        "m",
        turns=[Turn("user", [Text("Once")], at=("prompt",))],
        sampling=Sampling(0.5, 0.9, 4, seed=7, presence_penalty=1, frequency_penalty=-1, logit_bias={"5": 1}, n=1),
        limits=Limits(9, ("max_tokens",), ["END"], ("stop",)),
        identity=Identity("u", ("user",)),
        stream=True,
        include_usage=True,
    )
    assert losses == [Loss(Rule.UNKNOWN_FIELD, "drop", "wish"), Loss(Rule.LOGPROBS, "drop", "logprobs")]


def test_no_token_at_all_is_a_wish_to_fill_the_cache() -> None:
    assert read(max_tokens=0)[0].limits == Limits(0, ("max_tokens",), prewarm=True)


@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"prompt": None}, ErrorClass.INVALID, "prompt"),
        ({"prompt": []}, ErrorClass.INVALID, "prompt"),
        ({"prompt": 5}, ErrorClass.INVALID, "prompt"),
        ({"prompt": ["a", "b"]}, ErrorClass.UNSUPPORTED, "prompt"),
        ({"prompt": [1, 2]}, ErrorClass.UNSUPPORTED, "prompt"),
        ({"suffix": "x"}, ErrorClass.UNSUPPORTED, "suffix"),
        ({"echo": True}, ErrorClass.UNSUPPORTED, "echo"),
        ({"best_of": 2}, ErrorClass.UNSUPPORTED, "best_of"),
        ({"best_of": 3, "n": 2}, ErrorClass.UNSUPPORTED, "best_of"),
        ({"max_tokens": -1}, ErrorClass.INVALID, "max_tokens"),
        ({"logprobs": True}, ErrorClass.INVALID, "logprobs"),
    ],
)
def test_what_is_wrong_or_can_not_be_done_is_named(fields: Wire, kind: ErrorClass, param: str) -> None:
    error = refusal(**fields)
    assert (error.kind, error.param) == (kind, param)


FIELDS = [
    "model",
    "prompt",
    "best_of",
    "echo",
    "logprobs",
    "max_tokens",
    "n",
    "stop",
    "stream_options",
    "suffix",
    "user",
]


@pytest.mark.parametrize("name", FIELDS)
def test_a_stray_value_is_read_or_rejected(name: str) -> None:
    for value in STRAY:
        try:
            read(**{name: value})
        except Rejected as rejected:
            found = rejected.error
        else:
            continue
        assert found.param is not None


PARTS: list[ReplyPart] = [Reasoning("Hm"), Text("Once"), Text(" more"), Call("a", "f", "{}"), Text("upon")]


def test_a_whole_answer_holds_the_texts_alone() -> None:
    reply = Reply("msg_1", "m", PARTS, Stop("tool"), Usage(input_fresh=5, output=4), 5, fingerprint="fp")
    written = json.loads(write_reply(reply, CONTEXT))
    assert written.pop("usage")["total_tokens"] == 9
    assert written == {
        "id": "msg_1",
        "object": "text_completion",
        "created": 5,
        "model": "m",
        "system_fingerprint": "fp",
        "choices": [{"text": "Once more\n\nupon", "index": 0, "logprobs": None, "finish_reason": "stop"}],
    }


def chunks(*events: Event, context: ReplyContext = CONTEXT) -> list[Wire]:
    written = StreamWriter(context).write(events).decode()
    lines = written.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def test_a_stream_holds_the_texts_alone() -> None:
    found = chunks(*unfold(Reply("", "m", PARTS, Stop("length"))))
    assert [(chunk["choices"][0]["text"], chunk["choices"][0]["finish_reason"]) for chunk in found] == [
        ("Once", None),
        (" more", None),
        ("\n\nupon", None),
        ("", "length"),
    ]
    assert {(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in found} == {
        ("req_1", "text_completion", 7, "m")
    }


def test_a_stream_tells_usage_when_asked() -> None:
    events = (
        Start("1", "m"),
        Open(0, Text("")),
        Delta(0, "Hi"),
        Close(0),
        UsageUpdate(Usage(input_fresh=5, output=4)),
        Finish(Stop("end")),
        End(),
    )
    asked = chunks(*events, context=ReplyContext("r", "m", include_usage=True))
    assert [chunk["usage"] and chunk["usage"]["total_tokens"] for chunk in asked] == [None, None, 9]
    assert asked[-1]["choices"] == []


def test_a_ping_and_a_failure() -> None:
    assert StreamWriter(CONTEXT).write([Ping(), Fail(Error(ErrorClass.SERVER, "boom")), End()]) == (
        b': ping\n\ndata: {"error":{"message":"boom","type":"server_error","param":null,"code":null}}\n\n'
    )
