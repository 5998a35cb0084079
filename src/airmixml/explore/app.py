"""The addresses of the explorer: pages, and what they ask for."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from airmixml.errors import AirMixError

_PAGES: Final = Path(str(files("airmixml.explore") / "pages"))
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_REPORT_POLICY: Final = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; " + (
    "style-src 'unsafe-inline'; img-src data:; font-src data:"
)
_BEFORE_HEAVY_SECONDS: Final = 0.3


class Explorer:
    """What is kept between requests: processes, runs, scenes. Rooms that need torch are imported when first used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = asyncio.Event()
        self.interrupted = 0
        get, post = partial(Route, methods=["GET"]), partial(Route, methods=["POST"])
        self.app = Starlette(
            lifespan=self._lifespan,
            exception_handlers={AirMixError: _mistake},
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
        loop = asyncio.get_running_loop()
        Thread(target=self._warm_up, args=(loop,), daemon=True).start()
        yield {}
        if self._ready.is_set():
            self.interrupted = await asyncio.to_thread(self._book.close)

    def _warm_up(self, loop: asyncio.AbstractEventLoop) -> None:
        from airmixml.explore import jobs
        from airmixml.explore.run_book import RunBook
        from airmixml.explore.watch import Stage

        self._book, self._stage, self._jobs = RunBook(self._folder), Stage(), jobs.Jobs()
        from airmixml.explore.asked import read_asked
        from airmixml.explore.design import light_parts

        list(light_parts(read_asked({"preset": "paper-iris"}, self._folder).scenario))  # fills what is cached
        loop.call_soon_threadsafe(self._ready.set)
        jobs.prepare()  # after the first answer, which it would slow down

    async def _page(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        path = _PAGES / name
        if path.suffix not in _TYPES or path.parent != _PAGES or not path.is_file():
            raise HTTPException(404)
        return FileResponse(path, media_type=_TYPES[path.suffix])

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
        from airmixml.explore.choices import choices

        return JSONResponse({**choices(), "folder": str(self._folder)})

    async def _design(self, request: Request) -> Response:
        """Answer line by line, a part as soon as it is ready; when the page goes away, nothing more is computed."""
        body = await _body(request)
        return StreamingResponse(self._parts(body, request.is_disconnected), media_type="application/x-ndjson")

    async def _parts(self, body: Any, is_gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[bytes]:
        await self._ready.wait()
        from airmixml.explore import design, heavy
        from airmixml.explore.asked import read_asked

        try:
            asked = read_asked(body, self._folder)
            settled = await asyncio.to_thread(design.settle_asked, asked)
        except AirMixError as problem:
            for part in (design.problem_part(problem), {"part": "light"}, {"part": "done"}):
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
        async for part in self._jobs.answers(heavy.compute, settled.to_toml(), is_gone):
            yield _line(part)
        yield _line({"part": "done"})

    async def _watch(self, request: Request) -> Response:
        body = await _body(request)
        await self._ready.wait()
        from airmixml.errors import ScenarioError
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
        return JSONResponse(await asyncio.to_thread(self._stage.show, settled, slot - 1, where))

    async def _runs(self, _request: Request) -> Response:
        await self._ready.wait()
        return JSONResponse({"runs": await asyncio.to_thread(self._book.listed)})

    async def _start_run(self, request: Request) -> Response:
        body = await _body(request)
        await self._ready.wait()
        from airmixml.explore.asked import read_asked

        asked = read_asked(body, self._folder)
        return JSONResponse({"name": await asyncio.to_thread(self._book.start, asked.scenario)})

    async def _run(self, request: Request) -> Response:
        await self._ready.wait()
        return JSONResponse(await asyncio.to_thread(self._book.told, request.path_params["name"]))

    async def _act(self, request: Request) -> Response:
        await self._ready.wait()
        name, action = request.path_params["name"], request.path_params["action"]
        actions = {"cancel": self._book.cancel, "resume": self._book.resume, "forget": self._book.forget}
        if action not in actions:
            raise HTTPException(404)
        await asyncio.to_thread(actions[action], name)
        return JSONResponse({"name": name})

    async def _file(self, request: Request) -> Response:
        await self._ready.wait()
        path = self._book.file(request.path_params["name"], request.path_params["place"])
        # A report brings its own style and script; it may do nothing but show itself.
        own = {"content-security-policy": _REPORT_POLICY} if path.suffix == ".html" else {}
        return FileResponse(path, headers=own)


async def _body(request: Request) -> Any:
    from airmixml.errors import ScenarioError

    try:
        return await request.json()
    except (ValueError, RecursionError):
        raise ScenarioError("the request must be a JSON object") from None


async def _mistake(_request: Request, problem: Exception) -> Response:
    return JSONResponse({"line": " ".join(str(problem).split())}, status_code=400)


def _line(part: dict[str, Any]) -> bytes:
    return json.dumps(part, allow_nan=False).encode() + b"\n"
