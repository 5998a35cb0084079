"""The addresses of the explorer: pages, and what they ask for."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from airmixml.errors import AirMixError, ScenarioError
from airmixml.wording import reason

if TYPE_CHECKING:
    from airmixml.explore.heavy import Jobs
    from airmixml.explore.run_book import RunBook
    from airmixml.explore.watch import Stage


_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FILE_TYPES: Final = {".html": "text/html", ".png": "image/png", ".json": "application/json"}
_PAGES: Final = {
    path.name: path for path in Path(str(files("airmixml.explore") / "pages")).iterdir() if path.suffix in _TYPES
}
_REPORT_POLICY: Final = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
_BEFORE_HEAVY_SECONDS: Final = 0.3


@dataclass(frozen=True, eq=False)
class _Parts:
    """What needs torch."""

    book: "RunBook"
    stage: "Stage"
    jobs: "Jobs"

    @classmethod
    def of(cls, folder: Path) -> "_Parts":
        """Import it all, and compute a first design."""
        from airmixml.explore.heavy import Jobs
        from airmixml.explore.run_book import RunBook
        from airmixml.explore.watch import Stage

        _fill_caches()
        return cls(RunBook(folder), Stage(), Jobs())


@cache
def _fill_caches() -> None:
    """Compute a design, so that the first that a page asks for takes no longer than others."""
    from airmixml.explore.design import light_parts
    from airmixml.scenario import Scenario

    list(light_parts(Scenario.preset("paper-iris")))


class Explorer:
    """What is kept between requests: processes, runs, scenes. Rooms that need torch are imported when first used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Not an event of asyncio: imports may end after the loop has.
        self._prepared: Future[_Parts] = Future()
        self._prepared.set_running_or_notify_cancel()  # a page that goes away cancels it for no other
        self.interrupted = 0
        get, post = partial(Route, methods=["GET"]), partial(Route, methods=["POST"])
        self.app = Starlette(
            lifespan=self._lifespan,
            exception_handlers={AirMixError: _mistake, OSError: _mistake},
            routes=[
                get("/", self._page),
                get("/pages/{name}", self._page),
                get("/plotly.min.js", self._charts),
                get("/api/choices", self._choices),
                post("/api/design", self._design),
                post("/api/watch", self._watch),
                get("/api/runs", self._runs),
                post("/api/runs", self._start_run),
                get("/api/runs/{name}", self._run),
                post("/api/runs/{name}/{action}", self._act),
                get("/runs/{name}/{place:path}", self._file),
            ],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the guard let through."""
        await self.app(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[dict[str, Any]]:
        # Pages are served meanwhile; the first question that needs torch waits for it.
        Thread(target=self._prepare, daemon=True).start()
        yield {}
        if self._prepared.done() and self._prepared.exception() is None:
            self.interrupted = await asyncio.to_thread(self._prepared.result().book.close)

    def _prepare(self) -> None:
        try:
            self._prepared.set_result(_Parts.of(self._folder))
        except Exception as problem:  # then each question says so, instead of waiting without end
            self._prepared.set_exception(problem)
            return
        from airmixml.explore import heavy as jobs

        jobs.prepare()  # after the first answer, which it would slow down

    async def _ready(self) -> "_Parts":
        return await asyncio.wrap_future(self._prepared)

    async def _page(self, request: Request) -> Response:
        return page(request.path_params.get("name", "index.html"))

    async def _charts(self, _request: Request) -> Response:
        """Send the library that draws charts, from the installed package plotly."""
        found = find_spec("plotly")  # not imported: only this file of it is needed
        if found is None or found.origin is None:
            raise HTTPException(404)
        script = Path(found.origin).parent / "package_data" / "plotly.min.js"
        return FileResponse(
            script, media_type="text/javascript", headers={"cache-control": "private, max-age=604800, immutable"}
        )

    async def _choices(self, _request: Request) -> Response:
        from airmixml.explore.asked import choices

        return json_answer({**choices(), "folder": str(self._folder)})

    async def _design(self, request: Request) -> Response:
        """Answer line by line, a part as soon as it is ready; when the page goes away, nothing more is computed."""
        body = await _body(request)
        return StreamingResponse(self._parts(body, request.is_disconnected), media_type="application/x-ndjson")

    async def _parts(self, body: Any, is_gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[bytes]:
        parts = await self._ready()
        from airmixml.explore import design, heavy
        from airmixml.explore.asked import read_asked

        try:
            asked = read_asked(body, self._folder)
            settled = await asyncio.to_thread(design.settle_asked, asked)
        except AirMixError as problem:
            for part in (
                design.problem_part(problem, invalid=isinstance(problem, ScenarioError)),
                {"part": "light"},
                {"part": "done"},
            ):
                yield _line(part)
            return
        yield _line(design.scenario_part(asked, settled))
        if design.is_light(settled):
            for part in await asyncio.to_thread(lambda: list(design.light_parts(settled))):
                yield _line(part)
        yield _line({"part": "light"})
        await asyncio.sleep(_BEFORE_HEAVY_SECONDS)  # while a slider moves, nothing heavy is begun
        if body.get("light") or await is_gone():
            return
        async for part in parts.jobs.answers(heavy.compute, settled.to_toml(), is_gone):
            yield _line(part)
        yield _line({"part": "done"})

    async def _watch(self, request: Request) -> Response:
        body, parts = await _body(request), await self._ready()
        from airmixml.explore.asked import read_asked
        from airmixml.explore.design import settle_asked

        asked, slot, place = read_asked(body, self._folder), body.get("slot", 1), body.get("place")
        numbers = (
            isinstance(place, list)
            and len(place) == 2
            and all(type(each) in (int, float) and abs(each) < 1e9 for each in place)
        )
        if type(slot) is not int or (place is not None and not numbers):
            raise ScenarioError("slot must be a whole number, and place two numbers of metres")
        settled = await asyncio.to_thread(settle_asked, asked)
        where = (float(place[0]), float(place[1])) if place is not None else None
        return json_answer(await asyncio.to_thread(parts.stage.show, settled, slot - 1, where))

    async def _runs(self, _request: Request) -> Response:
        book = (await self._ready()).book
        return json_answer({"runs": await asyncio.to_thread(book.listed)})

    async def _start_run(self, request: Request) -> Response:
        body, book = await _body(request), (await self._ready()).book
        from airmixml.explore.asked import read_asked

        asked = read_asked(body, self._folder)
        return json_answer({"name": await asyncio.to_thread(book.start, asked.scenario)})

    async def _run(self, request: Request) -> Response:
        book = (await self._ready()).book
        return json_answer(await asyncio.to_thread(book.told, request.path_params["name"]))

    async def _act(self, request: Request) -> Response:
        book = (await self._ready()).book
        name, action = request.path_params["name"], request.path_params["action"]
        actions = {"cancel": book.cancel, "resume": book.resume, "forget": book.forget}
        if action not in actions:
            raise HTTPException(404)
        await asyncio.to_thread(actions[action], name)
        return json_answer({"name": name})

    async def _file(self, request: Request) -> Response:
        book, name, place = (await self._ready()).book, request.path_params["name"], request.path_params["place"]
        content = await asyncio.to_thread(book.file, name, place)
        # A report brings its own style, and needs no script; it may do nothing but show itself.
        own = {"content-security-policy": _REPORT_POLICY} if place.endswith(".html") else {}
        return Response(content, headers=own, media_type=_FILE_TYPES.get(Path(place).suffix, "text/plain"))


def page(name: str) -> Response:
    """Return a file of the pages."""
    path = _PAGES.get(name)
    if path is None:
        raise HTTPException(404)
    return FileResponse(path, media_type=_TYPES[path.suffix])


async def _body(request: Request) -> Any:
    try:
        content = json.loads(await request.body())
        json.dumps(content, ensure_ascii=False).encode()  # half a surrogate pair is JSON, but no text
        return content
    except (ValueError, RecursionError, ClientDisconnect):
        raise ScenarioError("the request must be a JSON object in UTF-8") from None


async def _mistake(_request: Request, problem: Exception) -> Response:
    line = f"{problem.filename}: {reason(problem)}" if isinstance(problem, OSError) else str(problem)
    return json_answer({"line": " ".join(line.split())}, 400)


def json_answer(content: dict[str, Any], status: int = 200) -> Response:
    """Return an answer in ASCII: names of files may hold what UTF-8 has no bytes for."""
    return Response(json.dumps(content, allow_nan=False), status, media_type="application/json")


def _line(part: dict[str, Any]) -> bytes:
    return json.dumps(part, allow_nan=False).encode() + b"\n"


class StatusPage:
    """Shows what ``told`` returns; nothing can be changed through it."""

    def __init__(self, told: Callable[[], dict[str, Any]]) -> None:
        self._told = told
        self.app = Starlette(
            routes=[
                Route("/", self._page, methods=["GET"]),
                Route("/pages/{name}", self._page, methods=["GET"]),
                Route("/api/status", self._status, methods=["GET"]),
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the guard let through."""
        await self.app(scope, receive, send)

    async def _page(self, request: Request) -> Response:
        return page(request.path_params.get("name", "status.html"))

    async def _status(self, _request: Request) -> Response:
        return json_answer(self._told())
