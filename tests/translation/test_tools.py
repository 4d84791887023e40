"""Tool policies as targets take them."""

import pytest

from proxy.canonical.loss import Loss, LossReport, Rule
from proxy.canonical.parts import Call, Text, Turn
from proxy.canonical.request import Request
from proxy.canonical.target import Dialect, Target
from proxy.canonical.tools import FunctionTool, ToolPolicy
from proxy.translation.tools import fit_policy


def fitted(request: Request, dialect: Dialect) -> list[Loss]:
    losses = LossReport()
    fit_policy(request, Target("chat", "m", dialect), losses)
    return losses.losses


def test_one_call_at_a_time_is_told_where_the_client_said_it() -> None:
    places = {"chat": "parallel_tool_calls", "messages": "tool_choice.disable_parallel_tool_use"}
    for origin, at in places.items():
        request = Request(origin, "m", tools=[FunctionTool("f", None)])  # type: ignore[arg-type]
        request.tool_policy = ToolPolicy(parallel=False)
        assert [loss.path for loss in fitted(request, Dialect(no_parallel_flag=True))] == [at]


@pytest.mark.parametrize(("parallel", "only_first"), [(False, True), (True, False), (None, False)])
def test_a_server_without_the_flag_never_gets_it(parallel: bool | None, only_first: bool) -> None:
    request = Request("chat", "m", tools=[FunctionTool("f", None)], tool_policy=ToolPolicy(parallel=parallel))
    assert len(fitted(request, Dialect(no_parallel_flag=True))) == only_first
    assert request.tool_policy == ToolPolicy(only_first=only_first)


def test_tools_that_may_not_be_called_stay_only_where_the_history_has_calls() -> None:
    ignores_none = Dialect(no_tool_choice_none=True)
    request = Request("chat", "m", tools=[FunctionTool("f", None)], tool_policy=ToolPolicy("none"))
    request.turns = [Turn("user", [Text("hi")])]
    assert fitted(request, ignores_none) == []
    request.turns.append(Turn("assistant", [Call("c", "f")]))
    assert fitted(request, ignores_none) == [Loss(Rule.TOOL_CHOICE, "approx", "tool_choice")]
