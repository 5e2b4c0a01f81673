"""Large outer products in parts, by number, and the parts on many processes or machines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import Any, TypeVar

from cookbook.catalog.fields import Field

Result = TypeVar("Result")
# Largest number of parts that are computed at a time, and retries of dask.
MAX_PENDING, RETRIES = 16, 5
# An executor is recognised by its methods; the call that submits the first part checks that.
EXECUTOR = Field.record(
    name="executor",
    what="executor",
    give="an executor of concurrent.futures, such as ProcessPoolExecutor(2), or a dask.distributed.Client",
    later=True,
)


class Parts:
    """An outer product cut into parts of at most `most` rows, the last axis fastest; a part is known by its number.

    Parameters
    ----------
    sizes : list of int
        Levels of each axis.
    most : int
        Rows of a part at most.

    Examples
    --------
    >>> parts = Parts([2, 5, 3], 6)
    >>> len(parts), parts[1], parts[5]
    (6, (6, [slice(0, 1, None), slice(2, 4, None), slice(0, 3, None)]), (27, [slice(1, 2, None), slice(4, 5, None), \
slice(0, 3, None)]))
    """

    def __init__(self, sizes: list[int], most: int) -> None:
        inner = len(sizes)
        while inner and math.prod(sizes[inner - 1 :]) <= most:
            inner -= 1
        # Whole axes from there on, some levels of the one before, and one of each further out.
        self._sizes, self._inner, self._block = sizes, inner, math.prod(sizes[inner:])
        self._step = max(most // self._block, 1)
        self._pieces = -(-sizes[inner - 1] // self._step) if inner else 1

    def __len__(self) -> int:
        return math.prod(self._sizes[: max(self._inner - 1, 0)]) * self._pieces

    def __getitem__(self, number: int) -> tuple[int, list[slice]]:
        """Return the first row of a part, and its levels of each axis."""
        if not 0 <= number < len(self):
            raise IndexError(f"there are parts 0 to {len(self) - 1}, not {number}")
        whole = [slice(0, size) for size in self._sizes[self._inner :]]
        if not self._inner:
            return 0, whole
        lead, piece = divmod(number, self._pieces)
        size = self._sizes[self._inner - 1]
        low, high = piece * self._step, min((piece + 1) * self._step, size)
        cuts, start = [slice(low, high)], self._block * (lead * size + low)
        for each in self._sizes[self._inner - 2 :: -1] if self._inner > 1 else ():
            lead, level = divmod(lead, each)
            cuts.insert(0, slice(level, level + 1))
        return start, [*cuts, *whole]


def spread(
    work: Callable[[Any, int], Result], what: Any, numbers: Iterable[int], executor: Any = None
) -> Iterator[tuple[int, Result]]:
    """Return results of `work(what, number)` for all of `numbers`, in the order in which they are done.

    Parameters
    ----------
    work : callable
        A function of a module, which other processes find by its name.
    what : object
        Its first argument, the same each time.
    numbers : iterable of int
        Its second argument, one after another.
    executor : concurrent.futures.Executor or dask.distributed.Client, optional
        Executor of the parts; by default they are computed here, one after another. Dask repeats the parts of a dead
        worker.

    Raises
    ------
    ValueError
        For an executor that is none.
    RuntimeError
        Where a worker of a pool died, after which the pool takes no more work.
    """
    if executor is None:
        yield from ((number, work(what, number)) for number in numbers)
        return
    pool, todo, pending = _pool(executor), iter(numbers), dict[Future[Result], int]()
    try:
        while True:
            while len(pending) < MAX_PENDING and (number := next(todo, -1)) >= 0:
                pending[pool.submit(work, what, number)] = number
            if not pending:
                return
            for future in sorted(wait(pending, return_when=FIRST_COMPLETED).done, key=pending.__getitem__):
                yield pending.pop(future), future.result()
    except BrokenExecutor as problem:
        raise RuntimeError(
            "a worker died, probably for want of memory: give a new executor with fewer workers. "
            "cb.planning.explore also takes a smaller size of a part, and goes on from a "
            "checkpoint"
        ) from problem
    finally:
        for future in pending:
            future.cancel()


def _pool(executor: Any) -> Any:
    """Return an executor of `concurrent.futures`; what a client of dask.distributed offers as one."""
    if hasattr(executor, "get_executor"):
        return executor.get_executor(pure=False, retries=RETRIES)
    if not callable(getattr(executor, "submit", None)):
        raise EXECUTOR.refuse(executor, "takes no work")
    return executor
