"""Settings of `prometheus`: who may scrape the metrics, and where they are pushed."""

from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.settings.fields import section, setting
from heliograph.settings.kinds import Boolean, Choice, Duration, RefusedError, Text, Texts

JOB_NAME = "${name}/instance/${name}~${host}"

# A user and a password belong into a header: URLs are shown, and logged.
_URL = Text("a URL without user and password, as in http://127.0.0.1:9091", r"https?://[^/?#\s@]+(?:[/?#]\S*)?")
_SWITCH = Choice("disabled", "enabled")
_NO_SUCH = "Accepted for EMQX's sake: this broker has no Erlang VM."


@dataclass(frozen=True, slots=True)
class PushGateway:
    enable: bool = setting(Boolean(), False, "Whether metrics are pushed.")
    url: str = setting(_URL, "http://127.0.0.1:9091", "Where it is.")
    method: str = setting(
        Choice("put", "post"),
        "put",
        "`put` replaces all metrics of the group, `post` those with the same names.",
    )
    interval: float = setting(Duration(1.0), 15.0, "How often.")
    headers: Mapping[str, str] = setting(Texts(), {}, "Headers of each request.", is_secret=True)
    job_name: str = setting(
        Text("a job and its labels"),
        JOB_NAME,
        "The group, below `/metrics/job/`; `${name}` and `${host}` are the parts of the node's name.",
    )


@dataclass(frozen=True, slots=True)
class Collectors:
    """Numbers of an Erlang VM."""

    vm_dist: str = setting(_SWITCH, "disabled", _NO_SUCH)
    mnesia: str = setting(_SWITCH, "disabled", _NO_SUCH)
    vm_statistics: str = setting(_SWITCH, "disabled", _NO_SUCH)
    vm_system_info: str = setting(_SWITCH, "disabled", _NO_SUCH)
    vm_memory: str = setting(_SWITCH, "disabled", _NO_SUCH)
    vm_msacc: str = setting(_SWITCH, "disabled", _NO_SUCH)


@dataclass(frozen=True, slots=True)
class PrometheusConfig:
    enable_basic_auth: bool = setting(
        Boolean(), False, "Whether a scrape needs an API key (`metrics:read`); otherwise everybody may scrape."
    )
    push_gateway: PushGateway = section(PushGateway, "A push gateway.")
    collectors: Collectors = section(Collectors, "Numbers of an Erlang VM.")
    enable: bool = setting(Boolean(), False, "The older form of `push_gateway.enable`.")
    push_gateway_server: str = setting(
        _URL, "http://127.0.0.1:9091", "The older form of `push_gateway.url`, with `enable`."
    )
    interval: float = setting(Duration(1.0), 15.0, "The older form of `push_gateway.interval`, with `enable`.")
    headers: Mapping[str, str] = setting(
        Texts(), {}, "The older form of `push_gateway.headers`, with `enable`.", is_secret=True
    )
    job_name: str = setting(
        Text("a job and its labels"), JOB_NAME, "The older form of `push_gateway.job_name`, with `enable`."
    )
    vm_dist_collector: str = setting(_SWITCH, "disabled", _NO_SUCH)
    mnesia_collector: str = setting(_SWITCH, "disabled", _NO_SUCH)
    vm_statistics_collector: str = setting(_SWITCH, "disabled", _NO_SUCH)
    vm_system_info_collector: str = setting(_SWITCH, "disabled", _NO_SUCH)
    vm_memory_collector: str = setting(_SWITCH, "disabled", _NO_SUCH)
    vm_msacc_collector: str = setting(_SWITCH, "disabled", _NO_SUCH)

    def __post_init__(self) -> None:
        if self.enable and self.push_gateway.enable:
            raise RefusedError("give enable, which is the older form, or push_gateway.enable, not both")

    @property
    def push(self) -> PushGateway:
        """The push gateway, in whichever form it is given."""
        if not self.enable:
            return self.push_gateway
        return PushGateway(True, self.push_gateway_server, "post", self.interval, self.headers, self.job_name)
