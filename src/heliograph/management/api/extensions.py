"""What clients of EMQX look for beside a broker, and what there is none of: plugins, exhooks, cluster links, files."""

from typing import Any, Final, NoReturn

from typing_extensions import TypedDict

from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.errors import ApiError

_OFF: Final = {503: ("SERVICE_UNAVAILABLE",)}

area = Area("Extensions", "Plugins, exhooks, links between clusters and file transfer. None of them exists here.")


class FileTransferState(TypedDict):
    """Whether clients may send files."""

    enable: bool


def _add_routes(path: str, one: str, scope: str, words: str, words_of_many: str, deleted: str) -> None:
    """Add the routes of things that there are none of.

    Args:
        path: Of one of them, without its name.
        one: In the names of operations.
    """
    reads, kind = {"scope": f"{scope}:read"}, one.replace("_", " ")

    @area.get(path.removesuffix("/link"), name=f"list_{one}s", description=f"All {words_of_many}.", **reads)
    async def list_all() -> list[dict[str, Any]]:
        return []

    @area.get(f"{path}/{{name}}", name=f"get_{one}", description=f"One {words}.", errors=MISSING, **reads)
    async def get(name: str) -> dict[str, Any]:
        _missing(kind, name)

    @area.delete(f"{path}/{{name}}", name=f"delete_{one}", description=deleted, errors=MISSING, scope=f"{scope}:write")
    async def delete(name: str) -> None:
        _missing(kind, name)


_add_routes("/plugins", "plugin", "plugins", "plugin", "plugins", "Uninstall a plugin.")
_add_routes("/exhooks", "exhook", "exhooks", "server of hooks", "servers of hooks", "Remove a server of hooks.")
_add_routes(
    "/cluster/links/link",
    "cluster_link",
    "cluster_links",
    "link to another cluster",
    "links to other clusters",
    "Remove a link to another cluster.",
)


@area.get("/file_transfer", scope="files:read")
async def get_file_transfer() -> FileTransferState:
    """Whether clients may send files."""
    return {"enable": False}


@area.get("/file_transfer/files", scope="files:read", errors=_OFF)
async def list_files() -> dict[str, Any]:
    """Files that clients have sent."""
    _is_off()


@area.get("/file_transfer/files/{clientid}/{fileid}", scope="files:read", errors=_OFF)
async def list_files_of_transfer(clientid: str, fileid: str) -> dict[str, Any]:
    """What a client has sent under one id."""
    _is_off()


@area.get("/file_transfer/file", scope="files:read", errors=_OFF)
async def get_file(node: str, fileref: str) -> dict[str, Any]:
    """A file."""
    _is_off()


def _missing(kind: str, name: str) -> NoReturn:
    raise ApiError(404, "NOT_FOUND", f"there is no {kind} {name[:100]!r}")


def _is_off() -> NoReturn:
    raise ApiError(503, "SERVICE_UNAVAILABLE", "file transfer is not enabled; this version has none")
