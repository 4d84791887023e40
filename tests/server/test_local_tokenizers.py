"""Prompts are counted by the tokenizer of the operator's own model, where no backend counts (mapping.md 16.2)."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from proxy.settings import SettingsError, load
from tests.server.serving import serving
from tests.server.test_counting import REQUESTS
from tests.upstream.scripted import Scripted

COUNTING = {"messages": "/v1/messages/count_tokens", "responses": "/v1/responses/input_tokens"}
FILE = """
upstreams: [{{name: a, protocol: chat, base_url: "{url}"}}]
model_profiles: [{{match: "m*", tokenizer: tokenizer.json}}, {{match: "*"}}]
"""


def a_tokenizer(folder: Path) -> None:
    """One that makes a token of each word and each run of signs."""
    tokenizer = Tokenizer(WordLevel({"unknown": 0}, unk_token="unknown"))
    wire = json.loads(tokenizer.to_str())
    (folder / "tokenizer.json").write_text(json.dumps({**wire, "pre_tokenizer": {"type": "Whitespace"}}))


@pytest.mark.parametrize("client", COUNTING)
async def test_a_models_own_tokenizer(tmp_path: Path, client: str) -> None:
    a_tokenizer(tmp_path)
    field = "system" if client == "messages" else "instructions"
    counts: list[int] = []
    async with Scripted([]) as backend:
        file = tmp_path / "dragoman.yaml"
        file.write_text(FILE.format(url=backend.base_url))
        settings = load(file, {})
        profiles = settings.model_profiles
        async with serving(*settings.upstreams.values(), models=settings.models, model_profiles=profiles) as proxy:
            half = {**REQUESTS[client], field: "\ud800"}
            status, _, _ = await proxy.post(COUNTING[client], json.dumps(half).encode())
            assert status == 200
            for words in (1, 101, 201):
                _, headers, body = await proxy.post(COUNTING[client], {**REQUESTS[client], field: "word, " * words})
                assert headers["dragoman-usage"] == "estimated"
                counts.append(json.loads(body)["input_tokens"])
    # A word and a comma are a token each, and a twentieth is added.
    assert [after - before for before, after in pairwise(counts)] == [210, 210]


@pytest.mark.parametrize("held", ["", "{}", "no tokenizer"])
def test_a_file_that_is_none(tmp_path: Path, held: str) -> None:
    (tmp_path / "tokenizer.json").write_text(held)
    file = tmp_path / "dragoman.yaml"
    file.write_text(FILE.format(url="http://a"))
    with pytest.raises(SettingsError) as caught:
        load(file, {})
    assert "holds no tokenizer" in str(caught.value)
