"""TLS contexts of clients: of sinks, and of what publishes over MQTT."""

import ssl

from heliograph.pipeline.errors import PipelineError


def client_context(
    cafile: str | None, certfile: str | None, keyfile: str | None, verify: bool, fault: type[PipelineError]
) -> ssl.SSLContext:
    """A context for clients.

    Args:
        cafile: PEM file with the authorities to check against; None are the system's.
        certfile: PEM file with a certificate to show.
        keyfile: PEM file with its key; None if it is in `certfile`.
        verify: Whether the server's certificate and name are checked.
        fault: What is raised where a file cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=cafile)
        if certfile is not None:
            context.load_cert_chain(certfile, keyfile)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(file for file in (cafile, certfile, keyfile) if file)
        raise fault(f"the files for TLS cannot be used ({files}): {error}") from error
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
