"""Which kind of connection to a collector settings ask for."""

from heliograph.config.opentelemetry import OtelExporterConfig
from heliograph.management.telemetry.collector import Collector
from heliograph.outbound import Dialer


def make_collector(settings: OtelExporterConfig, dialer: Dialer) -> Collector:
    """A connection as the settings say, which is opened when it is used.

    Raises:
        OSError: A file of TLS cannot be read.
    """
    if settings.protocol == "grpc":
        from heliograph.management.telemetry.over_grpc import GrpcCollector  # 10 MiB that HTTP does without

        return GrpcCollector(settings, dialer)
    from heliograph.management.telemetry.over_http import HttpCollector

    return HttpCollector(settings, dialer)
