"""A change of keys changes nothing else, down to the byte."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.commands.key_edits import NotEditable, edit_keys
from proxy.settings.document import read_yaml

NEW = {"kid": "k", "hash": "sha256:00", "expires_at": "2027-01-15T00:00:00Z"}
END = "2026-12-15T00:00:00Z"

# Before, and with one key more.
ADDED = [
    (
        "tenants:\n  - name: a  # the first\n    disabled: false\n# end\n",
        "tenants:\n  - name: a  # the first\n    keys:\n      - kid: k\n        hash: sha256:00\n"
        "        expires_at: 2027-01-15T00:00:00Z\n    disabled: false\n# end\n",
    ),
    (
        "tenants:\n- name:   a\n  keys:\n  # of the web site\n  - {kid: x,   hash: 'h'}  # old\n\n  # below\n"
        "listen:  ${L}\n",
        "tenants:\n- name:   a\n  keys:\n  # of the web site\n  - {kid: x,   hash: 'h'}  # old\n  - kid: k\n"
        "    hash: sha256:00\n    expires_at: 2027-01-15T00:00:00Z\n\n  # below\nlisten:  ${L}\n",
    ),
    (
        "tenants:\n  - keys:\n      - hash: h\n        kid: x # no line behind",
        "tenants:\n  - keys:\n      - hash: h\n        kid: x # no line behind\n      - kid: k\n"
        "        hash: sha256:00\n        expires_at: 2027-01-15T00:00:00Z",
    ),
    (
        "tenants:\n  - name: a\n    keys: []  # none yet\n    rest: |\n      text\n",
        "tenants:\n  - name: a\n    keys:  # none yet\n      - kid: k\n        hash: sha256:00\n"
        "        expires_at: 2027-01-15T00:00:00Z\n    rest: |\n      text\n",
    ),
    (
        "tenants:\n  - name: a\n    keys:\n    rest: 1\n",
        "tenants:\n  - name: a\n    keys:\n      - kid: k\n        hash: sha256:00\n"
        "        expires_at: 2027-01-15T00:00:00Z\n    rest: 1\n",
    ),
    (
        "tenants: [{name: a, x: ü}]",
        "tenants: [{name: a, x: ü, keys: [{kid: k, hash: sha256:00, expires_at: 2027-01-15T00:00:00Z}]}]",
    ),
    (
        "tenants: [{name: a, keys: [ ]}]",
        "tenants: [{name: a, keys: [{kid: k, hash: sha256:00, expires_at: 2027-01-15T00:00:00Z}]}]",
    ),
    (
        "tenants:\n- name: a\n  keys: [{kid: x},  # one\n    ]\n",
        "tenants:\n- name: a\n  keys: [{kid: x}, {kid: k, hash: sha256:00, expires_at: 2027-01-15T00:00:00Z},  # one\n"
        "    ]\n",
    ),
    (
        "# ünïcode 🔑\r\ntenants:\r\n  - name: a\r\n",
        "# ünïcode 🔑\r\ntenants:\r\n  - name: a\r\n    keys:\r\n      - kid: k\r\n        hash: sha256:00\r\n"
        "        expires_at: 2027-01-15T00:00:00Z\r\n",
    ),
]

THREE = """\
tenants:
  - name: a
    keys:   # three of them
      # the first
      - kid: x
        hash: h  # of x
      - kid: y
        expires_at: 2030-01-01  # far
        hash: h

      - {kid: z, hash: h}
    rpm: ${RPM:-5}
"""


@pytest.mark.parametrize(("before", "after"), ADDED)
def test_add(before: str, after: str) -> None:
    assert edit_keys(before, 0, new=NEW) == after


def test_end_all() -> None:
    assert edit_keys(THREE, 0, ends={0: END, 1: END, 2: END}, new={"kid": "k"}) == THREE.replace(
        "h  # of x\n", f"h  # of x\n        expires_at: {END}\n"
    ).replace("2030-01-01", END).replace("z, hash: h}\n", f"z, hash: h, expires_at: {END}}}\n      - kid: k\n")


def test_end_one_that_is_written_as_nothing() -> None:
    text = "tenants:\n- keys:\n  - expires_at:\n    kid: x\n"
    assert edit_keys(text, 0, ends={0: END}) == text.replace("_at:", f"_at: {END}")


def test_remove() -> None:
    assert edit_keys(THREE, 0, without=0) == THREE.replace("      - kid: x\n        hash: h  # of x\n", "")
    assert edit_keys(THREE, 0, without=1) == THREE.replace(
        "      - kid: y\n        expires_at: 2030-01-01  # far\n        hash: h\n", ""
    )
    assert edit_keys(THREE, 0, without=2) == THREE.replace("      - {kid: z, hash: h}\n", "")


def test_remove_the_last_one() -> None:
    assert edit_keys("tenants:\n- name: a\n  keys:  # one\n  - kid: x\n  b: 1\n", 0, without=0) == (
        "tenants:\n- name: a\n  keys: []  # one\n  b: 1\n"
    )
    assert edit_keys("tenants: [{keys: [{kid: x},]}]", 0, without=0) == "tenants: [{keys: []}]"


@pytest.mark.parametrize(("number", "left"), [(0, "{b: 2}, {c: 3}"), (1, "{a: 1}, {c: 3}"), (2, "{a: 1}, {b: 2}")])
def test_remove_from_a_list_on_one_line(number: int, left: str) -> None:
    text = "tenants: [{keys: [%s]}]"
    assert edit_keys(text % "{a: 1}, {b: 2}, {c: 3}", 0, without=number) == text % left


def test_only_the_tenant_that_is_meant() -> None:
    text = "tenants:\n" + "".join(f"  - name: t{n}\n    keys:\n      - kid: x{n}\n" for n in range(3))
    assert edit_keys(text, 1, new={"kid": "k"}) == text.replace("kid: x1\n", "kid: x1\n      - kid: k\n")


@pytest.mark.parametrize(
    "text",
    [
        "tenants:\n- keys: &k\n  - kid: x\n- keys: *k\n",
        "tenants:\n- &t\n  keys: [{kid: x}]\n- *t\n",
        "tenants:\n- keys: &k [{kid: x}]\nothers: *k\n",
    ],
)
def test_what_stands_for_something_else_as_well_is_left_alone(text: str) -> None:
    tenant = text.count("\n- ") - 1
    for number in range(tenant + 1):
        with pytest.raises(NotEditable):
            edit_keys(text, number, new=NEW)
        with pytest.raises(NotEditable):
            edit_keys(text, number, without=0)


comments = st.sampled_from(["", "  # a comment: - with - signs", " #"])


@st.composite
def key_lines(draw: st.DrawFn, pad: str) -> str:
    end = draw(comments)
    gap = " " * draw(st.integers(1, 4))
    return draw(
        st.sampled_from(
            [
                f"{pad}- {{kid: x, hash:  'h'}}{end}\n",
                f"{pad}-{gap}kid: x{end}\n",
                f"{pad}-{gap}kid: x{end}\n{pad} {gap}expires_at: '2030-01-01'{end}\n",
                f"{pad}-{gap}expires_at: ~\n{pad} {gap}kid:{gap}x{end}\n",
            ]
        )
    )


@st.composite
def files(draw: st.DrawFn) -> tuple[str, int]:
    """A text, and how many keys its only tenant has."""
    count, pad = draw(st.integers(1, 3)), " " * draw(st.integers(0, 4))
    gaps = st.sampled_from(["", "\n", f"{pad}    # between\n", "# at the margin\n"])
    deeper = pad + draw(st.sampled_from(["  ", "    "]))
    keys = "".join(draw(key_lines(deeper)) + draw(gaps) for _ in range(count))
    head = draw(st.sampled_from(["", "---\n", "# é🔑\nlisten: ${LISTEN}\n"]))
    tail = draw(st.sampled_from(["", f"{pad}  limits: {{rpm: 1}}\n", "models:\n- {match: '*'}\n"]))
    return f"{head}tenants:\n{pad}- name: a{draw(comments)}\n{pad}  keys:{draw(comments)}\n{keys}{tail}", count


@given(files(), st.data())
def test_any_block_of_keys_can_be_changed(file: tuple[str, int], data: st.DataObject) -> None:
    text, count = file
    number = data.draw(st.integers(0, count - 1))
    if data.draw(st.booleans()):
        text = text.removesuffix("\n")
    for edited, length in (
        (edit_keys(text, 0, new=NEW), count + 1),
        (edit_keys(text, 0, ends={number: END}, new=NEW), count + 1),
        (edit_keys(text, 0, without=number), count - 1),
    ):
        [(_, tenant)] = read_yaml("", edited).entries("tenants")
        keys = tenant["keys"]
        assert isinstance(keys, list)
        assert len(keys) == length
        assert length < count or comments_of(edited) == comments_of(text)


def comments_of(text: str) -> list[str]:
    return [line.partition("#")[2] for line in text.splitlines() if "#" in line]


def test_the_example_of_the_specification_can_be_changed() -> None:
    text = (Path(__file__).parents[2] / "config/dragoman.yaml").read_text()
    with_tenant = f"{text}\ntenants:\n  - name: team-a\n"
    assert edit_keys(with_tenant, 0, new={"kid": "k"}) == f"{with_tenant}    keys:\n      - kid: k\n"
