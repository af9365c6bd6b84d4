"""Data export and import."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

from fastapi import Depends, Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import Field
from starlette.datastructures import UploadFile
from typing_extensions import TypedDict

from heliograph.control.proto_v1.conf import CONF_KEYS
from heliograph.management.api.people import CallerDep
from heliograph.management.backups.backups import Backups
from heliograph.management.backups.errors import BackupError, RefusedTableError
from heliograph.management.backups.tables import TABLES
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.callers import Caller
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Str
from heliograph.management.web.paging import PageDep, PageOf, json_response, page_of
from heliograph.management.web.times import rfc3339

_UPLOAD: Final = {
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["filename"],
                "properties": {"filename": {"type": "string", "format": "binary"}},
            }
        }
    },
    "required": True,
}

# Keys may not see or change who may log in, whatever their role is.
_NOT_FOR_KEYS: Final = frozenset({"api_keys", "dashboard_users"})

area = Area(
    "Data", "Export of configuration, users, rules and bans, and import into another installation.", scope="data"
)


class ExportBody(Body):
    """What is to be in the archive; everything, where nothing is said."""

    table_sets: list[Str] | None = Field(default=None, description="Tables, as `banned`")
    root_keys: list[Str] | None = Field(default=None, description="Roots of the configuration, as `rule_engine`")
    passphrase: Str = Field(
        default="", description="What the archive is encrypted with; it has secrets", max_length=1024
    )


class ImportBody(Body):
    """Which archive to take."""

    filename: Str
    node: Str | None = None
    passphrase: Str = Field(default="", max_length=1024)


def _backups(request: Request, nodes: NodesDep) -> Backups:
    return Backups(nodes.own, Path(request.app.state.settings.data_dir))


BackupsDep = Annotated[Backups, Depends(_backups)]


class DataFile(TypedDict):
    """An archive.

    Attributes:
        size: Bytes.
        created_at_sec: Seconds since the epoch.
    """

    filename: str
    size: int
    created_at: str
    created_at_sec: int
    node: str


@area.post("/data/export", answers=DataFile)
async def export_data(
    backups: BackupsDep, nodes: NodesDep, caller: CallerDep, body: ExportBody | None = None
) -> Response:
    """Make an archive. It has secrets and hashes of passwords: encrypt it, or keep it where no one else can read it."""
    body = body or ExportBody(table_sets=None, root_keys=None, passphrase="")
    wanted = TABLES if body.table_sets is None else body.table_sets
    if refused := sorted(_refused_to(caller).intersection(wanted)):
        others = sorted(TABLES.keys() - _NOT_FOR_KEYS)
        raise _not_for_keys(refused, f"log in as a user, or ask for others: table_sets of {', '.join(others)}")
    if body.root_keys is not None:
        roots = {key.name for key in await nodes.own.rows(CONF_KEYS())}
        if unknown := [key for key in body.root_keys if key not in roots]:
            raise ApiError(400, "BAD_REQUEST", f"there is no root {', '.join(unknown)[:200]!r}")
    with _translated():
        file = await backups.export(body.root_keys, body.table_sets, body.passphrase)
    return json_response(_shown(file, nodes.own.name))


@area.get("/data/files", answers=PageOf[DataFile])
async def list_data_files(backups: BackupsDep, nodes: NodesDep, page: PageDep) -> Response:
    """All archives, the newest first."""
    return page_of([_shown(file, nodes.own.name) for file in backups.files()], page)


@area.post("/data/files", status=204, openapi_extra={"requestBody": _UPLOAD})
async def upload_data_file(request: Request, backups: BackupsDep, caller: CallerDep) -> None:
    """Upload an archive: the part `filename` of a form."""
    async with request.form() as form:
        part = form.get("filename")
        if not isinstance(part, UploadFile) or not part.filename:
            raise ApiError(400, "BAD_REQUEST", "the form has no file in the part filename")
        with _translated():
            await asyncio.to_thread(_keep, backups, part, _refused_to(caller), await backups.bytes_max())


@area.get(
    "/data/files/{filename}",
    response_class=Response,
    errors=MISSING,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "The archive"}},
)
async def download_data_file(
    filename: str,
    backups: BackupsDep,
    caller: CallerDep,
    node: Annotated[str | None, Query(description="Of which node")] = None,
) -> Response:
    """Download an archive."""
    with _translated():
        file = backups.file(filename)
        refused = _refused_to(caller)
        if refused and (found := sorted(refused.intersection(await backups.tables(file)))):
            raise _not_for_keys(found, "log in as a user")
        return FileResponse(file, media_type="application/octet-stream", filename=filename)


@area.delete("/data/files/{filename}", errors=MISSING)
async def delete_data_file(
    filename: str, backups: BackupsDep, node: Annotated[str | None, Query(description="Of which node")] = None
) -> None:
    """Delete an archive."""
    with _translated():
        backups.file(filename).unlink()


@area.post("/data/import", status=204, errors=MISSING)
async def import_data(backups: BackupsDep, caller: CallerDep, body: ImportBody) -> None:
    """Import an archive: its configuration is merged into the present one, its rows replace those with the same key."""
    with _translated():
        refused = await backups.take(backups.file(body.filename), body.passphrase, _refused_to(caller))
    lost = {table: count for table, count in refused.items() if count}
    if lost:
        text = ", ".join(f"{count} rows of {table}" for table, count in lost.items())
        raise ApiError(400, "BAD_REQUEST", f"all was taken but {text}, which the settings here do not allow")


def _refused_to(caller: Caller) -> frozenset[str]:
    """Tables that a caller neither gets nor brings."""
    return _NOT_FOR_KEYS if caller.kind == "api_key" else frozenset()


def _not_for_keys(tables: Sequence[str], advice: str) -> ApiError:
    """The refusal of tables to an API key."""
    return ApiError(401, "API_KEY_NOT_ALLOW", f"API keys neither export nor import {', '.join(tables)}: {advice}")


@contextmanager
def _translated() -> Iterator[None]:
    """What goes wrong with an archive as an error of the request."""
    try:
        yield
    except RefusedTableError as error:
        raise _not_for_keys([error.table], "log in as a user, or export without it") from None
    except BackupError as error:
        raise ApiError(400, "BAD_REQUEST", str(error)) from None
    except FileNotFoundError as error:
        raise ApiError(404, "NOT_FOUND", f"there is no archive {error}") from None
    except OSError as error:
        raise ApiError(503, "SERVICE_UNAVAILABLE", f"the disk refuses: {error.strerror}") from error


def _keep(backups: Backups, part: UploadFile, refused: frozenset[str], bytes_max: int) -> None:
    """Write an archive that was sent, and look into it before it has its name."""
    from heliograph.management.backups.archive import checked_name

    name = checked_name(part.filename or "")
    backups.directory.mkdir(mode=0o700, exist_ok=True)
    target = backups.directory / name
    if target.exists():
        raise BackupError(f"there is an archive {name} already: delete it first")
    backups.check_room(part.size or 0, bytes_max)
    temporary = backups.directory / f".{name}.coming"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            while chunk := part.file.read(1 << 20):
                out.write(chunk)
        if found := sorted(refused.intersection(backups.tables_now(temporary))):
            raise RefusedTableError(found[0])
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _shown(file: Path, node: str) -> DataFile:
    stat = file.stat()
    return {
        "filename": file.name,
        "size": stat.st_size,
        "created_at": rfc3339(int(stat.st_mtime * 1_000_000)),
        "created_at_sec": int(stat.st_mtime),
        "node": node,
    }
