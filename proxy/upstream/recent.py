"""Two counts over the last seconds, such as of requests and of failures, in a few slots that are used in turn."""

_SLOTS = 10


class Recent:
    """The last `seconds`, to a tenth of them. Moments are seconds of any clock that does not go back."""

    __slots__ = ("_firsts", "_last", "_seconds", "_width", "first", "second")

    def __init__(self, seconds: float) -> None:
        self._width = seconds / _SLOTS
        self._last = 0
        self._firsts = [0] * _SLOTS
        self._seconds = [0] * _SLOTS
        self.first = 0
        self.second = 0

    def add(self, now: float, first: int = 0, second: int = 0) -> None:
        """Count at `now`; with nothing to count, only let go of what is too old."""
        slot = int(now / self._width)
        if slot != self._last:
            self._move_to(slot)
        place = slot % _SLOTS
        self._firsts[place] += first
        self._seconds[place] += second
        self.first += first
        self.second += second

    def clear(self) -> None:
        """Forget all."""
        self._firsts = [0] * _SLOTS
        self._seconds = [0] * _SLOTS
        self.first = self.second = 0

    def _move_to(self, slot: int) -> None:
        for passed in range(self._last + 1, min(slot, self._last + _SLOTS) + 1):
            place = passed % _SLOTS
            self.first -= self._firsts[place]
            self.second -= self._seconds[place]
            self._firsts[place] = self._seconds[place] = 0
        self._last = slot
