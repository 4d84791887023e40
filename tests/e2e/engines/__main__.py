"""Hold what the proxy makes of an engine's answer against what the engine says in the client's protocol itself.

python -m tests.e2e.engines
"""

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace

import anthropic
import openai

from tests.e2e.engines.asks import ASKS, QUESTIONS, Answer, Question
from tests.e2e.engines.engine import llama_cpp, vllm
from tests.harness.proxy_process import ProxyProcess
from tests.harness.wire import PROTOCOLS, Protocol


async def _native(url: str) -> dict[tuple[str, Protocol], Answer]:
    """What the engine says by itself, whole; the streamed one has to be the same."""
    return {
        (question.name, protocol): await ASKS[protocol](url, question, False)
        for question in QUESTIONS
        for protocol in PROTOCOLS
    }


async def _held(url: str) -> tuple[int, list[str]]:
    """How many answers were held against native ones, and what was different."""
    native = await _native(url)
    checks, problems = 0, []
    for backend in PROTOCOLS:
        proxy = ProxyProcess(backend, url, key="none")
        await proxy.start()
        for client, question, stream in _asked():
            answer = await _answer(client, proxy.url, question, stream)
            # Of its Responses, llama.cpp says that they are complete even where it cut them.
            told = native[question.name, backend].ended
            expected = replace(native[question.name, client], ended=told)
            checks += 1
            if answer != expected:
                how = "streamed" if stream else "whole"
                problems.append(
                    f"{question.name}, {client} on {backend}, {how}:\n  native {expected}\n  proxy  {answer}"
                )
        await proxy.stop()
    return checks, problems


async def _answer(client: Protocol, url: str, question: Question, stream: bool) -> Answer | str:
    """What came, or what the SDK raised."""
    try:
        return await ASKS[client](url, question, stream)
    except (openai.OpenAIError, anthropic.AnthropicError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"


def _asked() -> Iterator[tuple[Protocol, Question, bool]]:
    for client in PROTOCOLS:
        for question in QUESTIONS:
            yield client, question, False
            yield client, question, True


ENGINES = {"llama.cpp": llama_cpp, "vllm": vllm}


async def main() -> int:
    failed = 0
    for name in sys.argv[1:] or ["llama.cpp"]:
        async with ENGINES[name]() as url:
            checks, problems = await _held(url)
        print("\n".join(problems))
        print(f"{name}: {checks - len(problems)} passed, {len(problems)} failed")
        failed += len(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
