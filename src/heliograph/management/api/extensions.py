"""What clients of EMQX look for beside a broker, and what there is none of: plugins, exhooks, cluster links, files."""

from typing import Any, Final, NoReturn

from typing_extensions import TypedDict

from heliograph.management.web.area import Area
from heliograph.management.web.errors import ApiError

_MISSING: Final = {404: ("NOT_FOUND",)}
_OFF: Final = {503: ("SERVICE_UNAVAILABLE",)}

area = Area("Extensions", "Plugins, exhooks, links between clusters and file transfer. None of them exists here.")


class FileTransferState(TypedDict):
    """Whether clients may send files."""

    enable: bool


@area.get("/plugins", scope="plugins:read")
async def list_plugins() -> list[dict[str, Any]]:
    """All plugins."""
    return []


@area.get("/plugins/{name}", scope="plugins:read", errors=_MISSING)
async def get_plugin(name: str) -> dict[str, Any]:
    """One plugin."""
    _missing("plugin", name)


@area.delete("/plugins/{name}", scope="plugins:write", errors=_MISSING)
async def delete_plugin(name: str) -> None:
    """Uninstall a plugin."""
    _missing("plugin", name)


@area.get("/exhooks", scope="exhooks:read")
async def list_exhooks() -> list[dict[str, Any]]:
    """All servers of hooks."""
    return []


@area.get("/exhooks/{name}", scope="exhooks:read", errors=_MISSING)
async def get_exhook(name: str) -> dict[str, Any]:
    """One server of hooks."""
    _missing("exhook", name)


@area.delete("/exhooks/{name}", scope="exhooks:write", errors=_MISSING)
async def delete_exhook(name: str) -> None:
    """Remove a server of hooks."""
    _missing("exhook", name)


@area.get("/cluster/links", scope="cluster_links:read")
async def list_cluster_links() -> list[dict[str, Any]]:
    """All links to other clusters."""
    return []


@area.get("/cluster/links/link/{name}", scope="cluster_links:read", errors=_MISSING)
async def get_cluster_link(name: str) -> dict[str, Any]:
    """One link to another cluster."""
    _missing("cluster link", name)


@area.delete("/cluster/links/link/{name}", scope="cluster_links:write", errors=_MISSING)
async def delete_cluster_link(name: str) -> None:
    """Remove a link to another cluster."""
    _missing("cluster link", name)


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
