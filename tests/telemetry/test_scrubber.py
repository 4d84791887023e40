"""No secret is ever shown."""

import pytest

from proxy.telemetry.scrubber import Scrubber


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Incorrect API key provided: sk-proj-abcd1234efgh.", "Incorrect API key provided: [secret]"),
        ("key sk-ant-api03-AAAA_bbbb-cccc was refused", "key [secret] was refused"),
        ("Incorrect API key provided: sk-abcd***********wxyz.", "Incorrect API key provided: [secret]"),
        ("authorization: Bearer abc.def-123456", "authorization: [secret]"),
        ("AKIAIOSFODNN7EXAMPLE", "[secret]"),
        ("in organization org-AbCdEfGhIjKlMnOpQrStUvWx on tokens", "in organization [secret] on tokens"),
        ("project proj_AbCdEfGhIjKlMnOpQrStUvWx", "project [secret]"),
        ("your organization's (0f8fad5b-d9cb-469f-a165-70867728950e) limit", "your [secret] limit"),
        ("the org-structure of the organization", "the org-structure of the organization"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "[secret]"),
        ("the task-force risk-management desk-lamp", "the task-force risk-management desk-lamp"),
        ("bearer of bad news", "bearer of bad news"),
    ],
)
def test_keys_are_known_by_their_shape(text: str, shown: str) -> None:
    assert Scrubber()(text) == shown


def test_known_secrets_are_found_anywhere() -> None:
    scrub = Scrubber(["hunter2-hunter2", "hunter2-hunter2-longer", "short"])
    assert scrub("x=hunter2-hunter2-longer&y=hunter2-hunter2, short") == "x=[secret]&y=[secret], short"
