"""Tokenizers of the operator's own models, for counts that no backend gives (mapping.md 16.2).

The library is an extra of its own, since few need it and it is large. A long prompt takes it milliseconds, so it counts
in a thread; it lets go of the interpreter meanwhile.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class Tokenizers:
    """Those that the settings name, each read when it is first wanted."""

    __slots__ = ("_read",)

    def __init__(self) -> None:
        self._read: dict[Path, Tokenizer] = {}

    async def count(self, path: Path, tally: Callable[[Callable[[str], int]], int]) -> int:
        """What `tally` gives for the count of one text by the tokenizer in the file at `path`."""
        return await asyncio.to_thread(self._count, path, tally)

    def _count(self, path: Path, tally: Callable[[Callable[[str], int]], int]) -> int:
        tokenizer = self._read.get(path)
        if tokenizer is None:
            from tokenizers import Tokenizer

            tokenizer = self._read[path] = Tokenizer.from_file(str(path))
        return tally(lambda text: len(tokenizer.encode(text, add_special_tokens=False)))
