"""TLS of the pipeline's clients, whose errors are the pipeline's."""

import ssl

from heliograph.pipeline.errors import PipelineError
from heliograph.settings.tls import ClientTls


def tls_context(tls: ClientTls, fault: type[PipelineError]) -> ssl.SSLContext:
    """The context of a client; `fault` is raised where a file cannot be used."""
    try:
        return tls.context()
    except OSError as error:
        files = ", ".join(file for file in (tls.cacertfile, tls.certfile, tls.keyfile) if file)
        raise fault(f"the files for TLS cannot be used ({files}): {error}") from error
