"""How a sink speaks TLS to its target: the object `ssl` of its section, with the names that listeners have."""

import ssl
from typing import Final

from heliograph.client_tls import ClientTls
from heliograph.pipeline.errors import PipelineError
from heliograph.pipeline.files.section import Section

_VERIFY: Final = {"verify_peer": True, "verify_none": False}


def read_tls(section: Section) -> ClientTls | None:
    """Read the object `ssl` of a sink's section; None where it is not there, or is not enabled."""
    tls = section.section("ssl")
    if tls is None:
        return None
    tls.check_keys("enable", "verify", "cacertfile", "certfile", "keyfile")
    verify = tls.text("verify", "verify_peer")
    if verify not in _VERIFY:
        raise tls.mistake(f"{tls.path}.verify is {verify!r}, but must be {' or '.join(_VERIFY)}", tls.fields["verify"])
    if "enable" in tls.fields and not tls.flag("enable"):
        return None
    cacertfile, certfile, keyfile = (tls.optional_text(key) for key in ("cacertfile", "certfile", "keyfile"))
    return ClientTls(cacertfile, certfile, keyfile, _VERIFY[verify])


def tls_context(tls: ClientTls, fault: type[PipelineError]) -> ssl.SSLContext:
    """The context of a client.

    Args:
        tls: What it says.
        fault: What is raised where a file cannot be used.
    """
    try:
        return tls.context()
    except OSError as error:
        files = ", ".join(file for file in (tls.cacertfile, tls.certfile, tls.keyfile) if file)
        raise fault(f"the files for TLS cannot be used ({files}): {error}") from error
