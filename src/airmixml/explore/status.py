"""The status page of a deployed server: who is there, how far the rounds are, what was spent, how good the model is."""

from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from airmixml.explore.app import json_answer, page


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
