"""Tokenizers of the operator's own models, for counts that no backend gives (mapping.md 16.2).

The library is an extra of its own, since few need it and it is large. It holds the interpreter while it works, so a
text is counted piece by piece in a thread, and other requests go on in between.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_PIECE = 8 * 1024  # characters; a cut is worth a token at the most
LONGEST = 2_000_000  # bytes of a request that is worth the time


class Tokenizers:
    """Those that the settings name, each read when it is first wanted. `close()` them."""

    __slots__ = ("_read", "_thread")

    def __init__(self) -> None:
        self._read: dict[Path, Tokenizer] = {}
        self._thread = ThreadPoolExecutor(1, "tokenizer")

    async def count(self, path: Path, tally: Callable[[Callable[[str], int]], int]) -> int:
        """What `tally` gives for the count of one text by the tokenizer in the file at `path`."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._count, path, tally)

    def close(self) -> None:
        """Let go of the thread; what it is counting is no longer wanted."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _count(self, path: Path, tally: Callable[[Callable[[str], int]], int]) -> int:
        tokenizer = self._read.get(path)
        if tokenizer is None:
            from tokenizers import Tokenizer

            tokenizer = self._read[path] = Tokenizer.from_file(str(path))

        def count(text: str) -> int:
            text = text.encode("utf-8", "replace").decode()  # half characters are none to the library
            pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
            return sum(len(tokenizer.encode(piece, add_special_tokens=False)) for piece in pieces)

        return tally(count)
