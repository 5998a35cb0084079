"""The addresses of the explorer: pages, and what they ask for."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from airmixml.explore.asked import choices, read_asked
from airmixml.messages import AirMixError, ScenarioError, reason
from airmixml.scenario import Scenario

if TYPE_CHECKING:
    from airmixml.explore.design import Jobs
    from airmixml.explore.run_book import RunBook


_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PAGES: Final = {path.name: path for path in Path(__file__).with_name("pages").iterdir() if path.suffix in _TYPES}
_REPORT_POLICY: Final = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
_BEFORE_HEAVY_SECONDS: Final = 0.3


class Explorer:
    """What is kept between requests: processes, runs, scenes. Rooms that need torch are imported when first used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Not an event of asyncio: imports may end after the loop has.
        self._prepared: Future[tuple[RunBook, Jobs]] = Future()
        self._prepared.set_running_or_notify_cancel()  # a page that goes away cancels it for no other
        self.interrupted = 0
        get, post = Route, partial(Route, methods=["POST"])
        self.app = Starlette(
            lifespan=self._lifespan,
            exception_handlers={AirMixError: _mistake, OSError: _mistake},
            routes=[
                *pages("index.html"),
                get("/plotly.min.js", _charts),
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

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[dict[str, Any]]:
        # Pages are served meanwhile; the first question that needs torch waits for it.
        Thread(target=self._prepare, daemon=True).start()
        yield {}
        if self._prepared.done() and self._prepared.exception() is None:
            self.interrupted = await asyncio.to_thread(self._prepared.result()[0].close)

    def _prepare(self) -> None:
        try:
            from airmixml.explore import design
            from airmixml.explore.run_book import RunBook

            # So that the first that a page asks for takes no longer.
            list(design.light_parts(Scenario.preset("paper-iris")))
            self._prepared.set_result((RunBook(self._folder), design.Jobs()))
        except Exception as problem:  # then each question says so, instead of waiting without end
            self._prepared.set_exception(problem)
        else:
            design.prepare()  # after the first answer, which it would slow down

    async def _ready(self) -> "tuple[RunBook, Jobs]":
        return await asyncio.wrap_future(self._prepared)

    async def _book(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the run book returns, which may wait for a disk."""
        return await asyncio.to_thread(getattr((await self._ready())[0], method), *arguments)

    async def _choices(self, _request: Request) -> Response:
        return json_answer({**choices(), "folder": str(self._folder)})

    async def _design(self, request: Request) -> Response:
        """Answer line by line, a part as soon as it is ready; when the page goes away, nothing more is computed."""
        body = await _body(request)
        return StreamingResponse(self._parts(body, request.is_disconnected), media_type="application/x-ndjson")

    async def _parts(self, body: Any, is_gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[bytes]:
        jobs = (await self._ready())[1]
        from airmixml.explore import design
        from airmixml.workers import settle

        try:
            asked = read_asked(body, self._folder)
            settled = await asyncio.to_thread(settle, asked.scenario)
        except AirMixError as problem:
            yield _line(design.problem_part(problem, invalid=isinstance(problem, ScenarioError)))
            yield _line({"part": "light"})
            yield _line({"part": "done"})
            return
        yield _line(design.scenario_part(asked, settled))
        if design.is_light(settled):
            for part in await asyncio.to_thread(lambda: list(design.light_parts(settled))):
                yield _line(part)
        yield _line({"part": "light"})
        await asyncio.sleep(_BEFORE_HEAVY_SECONDS)  # while a slider moves, nothing heavy is begun
        if body.get("light") or await is_gone():
            return
        async for part in jobs.answers(design.compute, settled.to_toml(), is_gone):
            yield _line(part)
        yield _line({"part": "done"})

    async def _watch(self, request: Request) -> Response:
        body = await _body(request)
        await self._ready()
        from airmixml.explore import watch
        from airmixml.workers import settle

        asked, slot, place = read_asked(body, self._folder), body.get("slot", 1), body.get("place")
        near = isinstance(place, list) and all(type(each) in (int, float) and abs(each) < 1e9 for each in place)
        if type(slot) is not int or not (place is None or (near and len(place) == 2)):
            raise ScenarioError("slot must be a whole number, and place two numbers of metres")
        settled = await asyncio.to_thread(settle, asked.scenario)
        where = None if place is None else (float(place[0]), float(place[1]))
        return json_answer(await asyncio.to_thread(watch.show, settled, slot - 1, where))

    async def _runs(self, _request: Request) -> Response:
        return json_answer({"runs": await self._book("listed")})

    async def _start_run(self, request: Request) -> Response:
        asked = read_asked(await _body(request), self._folder)
        return json_answer({"name": await self._book("start", asked.scenario)})

    async def _run(self, request: Request) -> Response:
        return json_answer(await self._book("told", request.path_params["name"]))

    async def _act(self, request: Request) -> Response:
        name, action = request.path_params["name"], request.path_params["action"]
        if action not in ("cancel", "resume"):
            raise HTTPException(404)
        await self._book(action, name)
        return json_answer({"name": name})

    async def _file(self, request: Request) -> Response:
        content = await self._book("file", request.path_params["name"], request.path_params["place"])
        # A report brings its own style, and needs no script; it may do nothing but show itself.
        return Response(content, headers={"content-security-policy": _REPORT_POLICY}, media_type="text/html")


def pages(first: str) -> list[Route]:
    """Return the addresses of the files of the pages, of which one is the ``first``."""

    async def page(request: Request) -> Response:
        path = _PAGES.get(request.path_params.get("name", first))
        if path is None:
            raise HTTPException(404)
        return FileResponse(path, media_type=_TYPES[path.suffix])

    return [Route("/", page), Route("/pages/{name}", page)]


async def _charts(_request: Request) -> Response:
    """Send the library that draws charts, from the installed package plotly, of which only this file is needed."""
    found = find_spec("plotly")
    if found is None or found.origin is None:
        raise HTTPException(404)
    script = Path(found.origin).parent / "package_data" / "plotly.min.js"
    return FileResponse(script, media_type="text/javascript", headers={"cache-control": "private, max-age=604800"})


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


def status_app(told: Callable[[], dict[str, Any]]) -> Starlette:
    """Return pages that show what ``told`` returns; nothing can be changed through them."""

    async def status(_request: Request) -> Response:
        return json_answer(told())

    return Starlette(routes=[*pages("status.html"), Route("/api/status", status)])
