"""`python -m heliograph.management.document`: the document of the API in each of its forms, as one object of JSON.

It is made in a process of its own, which ends: what it takes to make it would stay with a process that lasts.
"""

import sys

import orjson
from fastapi import FastAPI

from heliograph.management.api.areas import AREAS
from heliograph.management.web.openapi import document_of
from heliograph.management.web.openapi_30 import as_openapi_30
from heliograph.management.web.yaml_text import yaml_text


def main() -> int:
    """Write the document."""
    app = FastAPI()
    app.router.routes.extend(route.made for area in AREAS for route in area.routes)
    document = document_of(app, AREAS)
    forms = {
        "json": orjson.dumps(document).decode(),
        "json 3.0": orjson.dumps(as_openapi_30(document)).decode(),
        "yaml": yaml_text(document),
    }
    sys.stdout.buffer.write(orjson.dumps(forms))
    return 0


if __name__ == "__main__":
    sys.exit(main())
