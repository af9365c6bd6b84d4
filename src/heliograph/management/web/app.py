"""The application: the areas of the API below its base path, and what holds for all of them."""

from collections.abc import Callable, Sequence

from fastapi import FastAPI

from heliograph.config.management_settings import ManagementSettings
from heliograph.management.asking.nodes import Nodes
from heliograph.management.web.area import Area
from heliograph.management.web.callers import Callers
from heliograph.management.web.cors import Cors
from heliograph.management.web.errors import add_error_handlers
from heliograph.management.web.limits import Limits
from heliograph.management.web.request_scope import RequestScope
from heliograph.processes.programs import Programs


def make_app(
    areas: Sequence[Area],
    settings: ManagementSettings,
    nodes: Nodes,
    callers: Callers,
    programs: Programs,
    now_s: Callable[[], float],
) -> FastAPI:
    """The application.

    What routes use stands in `app.state`: `settings` (replaced when they change), `nodes`, `callers`,
    `programs` (which start processes), `now_s` (the wall clock), the `scopes` of all routes, and the `places` that
    callers share (`web.places`).
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.settings = settings
    app.state.nodes = nodes
    app.state.callers = callers
    app.state.programs = programs
    app.state.now_s = now_s
    app.state.places = {}
    app.state.scopes = sorted(set().union(*(area.scopes for area in areas)))
    for area in areas:
        app.router.routes.extend(area.routes)
    add_error_handlers(app)
    app.add_middleware(Cors, is_on=lambda: app.state.settings.dashboard.cors)
    app.add_middleware(Limits)
    app.add_middleware(RequestScope)
    return app
