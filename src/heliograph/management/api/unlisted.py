"""Served outside of the document: the document itself, the way to its page, and the health check without the base."""

from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import FastAPI, Request, Response

from heliograph.management.api.documents import Documents
from heliograph.management.api.status import get_status
from heliograph.management.web.area import BASE
from heliograph.management.web.errors import not_found

_DOCS: Final = "/api-docs"


def add_unlisted_paths(app: FastAPI) -> None:
    """Serve them."""
    documents = Documents(app.state.programs)

    def serve(path: str, make: Callable[[], Awaitable[Response]]) -> None:
        async def answer(request: Request) -> Response:
            if not request.app.state.settings.dashboard.swagger_support:
                return not_found(request)
            return await make()

        app.add_api_route(path, answer, include_in_schema=False)

    def serve_form(path: str, form: str, media_type: str) -> None:
        async def make() -> Response:
            return Response(await documents.form(form), media_type=media_type)

        serve(path, make)

    methods = ["GET", "HEAD"]
    app.add_api_route("/status", get_status, methods=methods, include_in_schema=False, response_class=Response)
    serve_form(f"{BASE}/openapi.json", "json", "application/json")
    serve_form(f"{BASE}/openapi.yaml", "yaml", "application/yaml")
    serve_form(f"{_DOCS}/swagger.json", "json 3.0", "application/json")
    # To the page of the dashboard, below whatever path a proxy has put in front.
    serve(_DOCS, _redirection("./#/api"))
    serve(f"{_DOCS}/index.html", _redirection("../#/api"))


def _redirection(place: str) -> Callable[[], Awaitable[Response]]:
    async def make() -> Response:
        return Response(status_code=307, headers={"location": place})

    return make
