"""`dragoman config`."""

import orjson
import pytest

from proxy.cli import main
from proxy.settings.json_schema import json_schema


def test_config_schema_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "schema"]) == 0
    assert orjson.loads(capsys.readouterr().out) == json_schema()
