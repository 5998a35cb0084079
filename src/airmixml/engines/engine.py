"""One way to run independent parts of a command anywhere, without a change of their numbers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from os import cpu_count
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from airmixml.messages import AirMixError, ScenarioError, did_you_mean, shown

if TYPE_CHECKING:
    from airmixml.engines.processes import Prepare

_ENGINES: Final = ("local", "ray")
_MOST_JOBS: Final = 4096

Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Runs parts of a command that need nothing of each other."""

    name: str = "local"  #: "local" for this machine, "ray" for a Ray cluster
    #: Parts at a time; 1 on this machine is this process, 0 as many as there are cores, or as a cluster takes.
    jobs: int = 1

    @classmethod
    def of(cls, name: str, jobs: int | None = None, default: int = 1) -> Self:
        """Return the engine that options name; without ``jobs`` all of a cluster, or so many on this machine."""
        name = "local" if name == "processes" else name  # as sweeps call it too
        if name not in _ENGINES:
            near = did_you_mean(str(name), _ENGINES)
            raise ScenarioError(f"--engine = {shown(name)}: must be {' or '.join(_ENGINES)}{near}")
        if jobs is not None and not (isinstance(jobs, int) and 1 <= jobs <= _MOST_JOBS):
            raise ScenarioError(f"--jobs = {jobs}: must be from 1 to {_MOST_JOBS}; leave it out for the default")
        default = 0 if name == "ray" else default
        chosen = cls(name=name, jobs=default if jobs is None else jobs)
        if name == "local" and not chosen.here:
            from airmixml.engines.processes import end_if_started_by_script

            end_if_started_by_script()
        return chosen

    @property
    def here(self) -> bool:
        """Whether all is done in this process."""
        return self.name == "local" and self.jobs == 1

    def each(
        self,
        prepare: Prepare,
        shared: Any,
        items: Sequence[Item],
        *,
        told: Callable[[Item, Any], None] = lambda _item, _message: None,
        left_behind: Callable[[Item], Sequence[Item]] = lambda _item: (),
        on_gpu: Callable[[Item], bool] = lambda _item: False,
    ) -> Generator[tuple[Item, Any], None, None]:
        """Yield each item with its result as soon as that is there, or with ``Lost`` where its process died.

        ``prepare``, a function of a module, is called once in every process, or node of a cluster. ``told`` gets an
        item and what its work tells; a cluster tells nothing before the result. ``left_behind`` returns what to run
        instead of an item whose process died.
        """
        if not items:
            return
        if self.name == "ray":
            from airmixml.engines.processes import run_on_ray

            yield from run_on_ray(prepare, shared, items, self.jobs, on_gpu=on_gpu)
        elif self.here:
            work = prepare(shared)
            for item in items:
                yield item, work(item, partial(told, item))
        else:
            from airmixml.engines.processes import run_in_processes

            at_once = min(self.jobs or cpu_count() or 1, len(items))
            yield from run_in_processes(prepare, shared, items, at_once, told=told, left_behind=left_behind)

    def run(
        self, prepare: Prepare, shared: Any, items: Sequence[Item], *, on_gpu: bool = False
    ) -> Generator[tuple[Item, Any], None, None]:
        """Yield each item with its result as soon as that is there; a process that dies is an error."""
        from airmixml.engines.processes import Lost  # here: most commands run in this process

        with closing(self.each(prepare, shared, items, on_gpu=lambda _: on_gpu)) as finishing:
            for item, result in finishing:
                if isinstance(result, Lost):
                    part = f"part {items.index(item) + 1} of {len(items)}"
                    raise AirMixError(f"--engine = {self.name}: {part}: {result.why}")
                yield item, result

    def run_in_order(self, prepare: Prepare, shared: Any, items: Sequence[Item]) -> Generator[Any, None, None]:
        """Yield the results in the order of the items: those that are finished early wait."""
        waiting: dict[Item, Any] = {}
        with closing(self.run(prepare, shared, items)) as finishing:
            for item in items:
                while item not in waiting:
                    waiting.update([next(finishing)])
                yield waiting.pop(item)
