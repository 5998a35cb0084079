"""One way to run independent parts of a command anywhere, without a change of their numbers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from os import cpu_count
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, cast

from airmixml.errors import AirMixError, ScenarioError
from airmixml.wording import did_you_mean, shown

if TYPE_CHECKING:
    from airmixml.engines.processes import Tell, Work

Engines = Literal["local", "ray"]
"""Where parts of a command run: on this machine, or on a Ray cluster."""
ENGINES: Final = ("local", "ray")
"""The same, to choose from."""
_MOST_JOBS: Final = 4096

Item = TypeVar("Item")
Result = TypeVar("Result")
Prepare = Callable[[Any], Callable[[Item], Result]]
"""Makes of what all items share what makes their results."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Runs parts of a command that need nothing of each other."""

    name: Engines = "local"  #: "local" for this machine, "ray" for a Ray cluster
    #: Parts at a time; 1 on this machine is this process, 0 as many as there are cores, or as a cluster takes.
    jobs: int = 1

    @classmethod
    def of(cls, name: str, jobs: int | None = None, default: int = 1) -> Self:
        """Return the engine that options name; without ``jobs`` all of a cluster, or so many on this machine."""
        name = "local" if name == "processes" else name  # as sweeps call it too
        if name not in ENGINES:
            near = did_you_mean(str(name), list(ENGINES))
            raise ScenarioError(f"--engine = {shown(name)}: must be {' or '.join(ENGINES)}{near}")
        if jobs is not None and not (isinstance(jobs, int) and 1 <= jobs <= _MOST_JOBS):
            raise ScenarioError(f"--jobs = {jobs}: must be from 1 to {_MOST_JOBS}; leave it out for the default")
        default = 0 if name == "ray" else default
        chosen = cls(name=cast(Engines, name), jobs=default if jobs is None else jobs)
        if name == "local" and not chosen.here:
            from airmixml.engines.processes import end_if_started_by_script

            end_if_started_by_script()
        return chosen

    @property
    def here(self) -> bool:
        """Whether all is done in this process."""
        return self.name == "local" and self.jobs == 1

    def run(
        self,
        prepare: Prepare[Item, Result],
        shared: Any,
        items: Sequence[Item],
        *,
        on_gpu: bool = False,
    ) -> Generator[tuple[int, Result], None, None]:
        """Yield the number and the result of each item, in the order in which they are finished.

        ``prepare``, a function of a module, is called once in every process, or node of a cluster. Few items begin
        before the oldest unfinished one is finished, so that few results wait where they are wanted in order.
        """
        from airmixml.engines.processes import Lost  # here: most commands run in this process

        numbered = list(enumerate(items))
        finishing = self.each(_Numbered(prepare), shared, numbered, on_gpu=lambda _: on_gpu, in_order=True)
        with closing(finishing):
            for (number, _), result in finishing:
                if isinstance(result, Lost):
                    raise AirMixError(f"--engine = {self.name}: part {number + 1} of {len(items)}: {result.why}")
                yield number, cast(Result, result)

    def each(
        self,
        prepare: Callable[[Any], Work],
        shared: Any,
        items: Sequence[Item],
        *,
        told: Callable[[Item, Any], None] = lambda _item, _message: None,
        left_behind: Callable[[Item], Sequence[Item]] = lambda _item: (),
        on_gpu: Callable[[Item], bool] = lambda _item: False,
        in_order: bool = False,
    ) -> Generator[tuple[Item, Any], None, None]:
        """Yield each item with its result, or ``Lost`` where its process died; see ``run`` for the others.

        ``told`` gets an item and what its work tells; a cluster tells nothing before the result. ``left_behind``
        returns what to run instead of an item whose process died. ``in_order``: no item begins long before an earlier
        one is finished.
        """
        if not items:
            return
        if self.name == "ray":
            from airmixml.engines.cluster import run_on_ray

            yield from run_on_ray(prepare, shared, items, self.jobs, on_gpu=on_gpu, in_order=in_order)
        elif self.here:
            work = prepare(shared)
            for item in items:
                yield item, work(item, partial(told, item))
        else:
            from airmixml.engines.processes import run_in_processes

            at_once = min(self.jobs or cpu_count() or 1, len(items))
            yield from run_in_processes(
                prepare, shared, items, at_once, told=told, left_behind=left_behind, in_order=in_order
            )

    def run_in_order(
        self, prepare: Prepare[Item, Result], shared: Any, items: Sequence[Item]
    ) -> Generator[Result, None, None]:
        """Yield the results in the order of the items: those that are finished early wait."""
        waiting: dict[int, Result] = {}
        wanted = 0
        for number, result in self.run(prepare, shared, items):
            waiting[number] = result
            while wanted in waiting:
                yield waiting.pop(wanted)
                wanted += 1


@dataclass(frozen=True)
class _Numbered:
    """Makes results of numbered items, whose number is for the caller alone."""

    prepare: Prepare[Any, Any]

    def __call__(self, shared: Any) -> Work:
        work = self.prepare(shared)

        def of_numbered(numbered: tuple[int, Any], _tell: Tell) -> Any:
            return work(numbered[1])

        return of_numbered
