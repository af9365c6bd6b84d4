"""Which rule of `outbound` decides about a server, by its name, its address and its port."""

import pytest

from heliograph.settings.kinds import RefusedError
from heliograph.settings.outbound import HostPattern, Network, OutboundConfig, OutboundPolicy, PortRange

PLANT = OutboundConfig(
    allowed_hosts=("*.plant.example", "kafka"), allowed_networks=("10.20.0.0/16", "2001:db8::/32"), denied_ports=("22",)
)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "fe80::1",
        "fe80::1%3",
        "fd00:ec2::254",
        "fd20:ce::254",
        "100.100.100.200",
        "168.63.129.16",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
    ],
)
def test_metadata_services_and_link_local_addresses_are_denied_by_default(address: str) -> None:
    assert "outbound.allow_link_local = false" in OutboundPolicy(OutboundConfig()).fault("db.example", address, 80)
    assert OutboundPolicy(OutboundConfig(allow_link_local=True)).fault("db.example", address, 80) == ""


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1"])
def test_loopback_is_a_switch(address: str) -> None:
    assert OutboundPolicy(OutboundConfig()).fault("db.example", address, 80) == ""
    fault = OutboundPolicy(OutboundConfig(allow_loopback=False)).fault("db.example", address, 80)
    assert "outbound.allow_loopback = false" in fault


@pytest.mark.parametrize(
    ("host", "address", "port", "fault"),
    [
        ("kafka", "192.0.2.1", 9092, ""),
        ("A.Plant.Example.", "192.0.2.1", 80, ""),
        ("plant.example", "192.0.2.1", 80, "not in outbound.allowed_hosts (*.plant.example, kafka) or outbound.allow"),
        ("other.example", "10.20.3.4", 80, ""),
        ("other.example", "2001:db8::5", 80, ""),
        ("other.example", "::ffff:10.20.3.4", 80, ""),
        ("other.example", "64:ff9b::a14:304", 80, "not in outbound.allowed_hosts"),  # a translator's own address
        ("kafka", "192.0.2.1", 22, "denied at port 22 by outbound.denied_ports (22)"),
        ("kafka", "169.254.169.254", 80, "denied by outbound.allow_link_local = false (169.254.0.0/16)"),
    ],
)
def test_a_server_is_in_a_list_of_what_is_allowed(host: str, address: str, port: int, fault: str) -> None:
    found = OutboundPolicy(PLANT).fault(host, address, port)
    assert found.startswith(fault)
    assert bool(found) == bool(fault)


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        (OutboundConfig(denied_networks=("192.0.2.0/24",)), "denied by outbound.denied_networks (192.0.2.0/24)"),
        (OutboundConfig(denied_hosts=("db.*",)), "denied by outbound.denied_hosts (db.*)"),
        (OutboundConfig(denied_ports=("5000-6000",)), "denied at port 5432 by outbound.denied_ports (5000-6000)"),
        (
            OutboundConfig(allowed_ports=("80",)),
            "denied at port 5432, which is not in outbound.allowed_ports (80)",
        ),
    ],
)
def test_what_is_denied_is_denied_though_it_is_allowed(config: OutboundConfig, fault: str) -> None:
    assert OutboundPolicy(config).fault("db.example", "192.0.2.1", 5432) == fault
    assert OutboundPolicy(config).fault("web.example", "198.51.100.1", 80) == ""


@pytest.mark.parametrize(
    ("config", "host", "is_denied"),
    [
        (OutboundConfig(), "169.254.169.254", True),
        (OutboundConfig(), "2852039166", True),  # the same, as some resolvers read it
        (OutboundConfig(), "0xA9.254.169.254", True),
        (OutboundConfig(), "metadata.example", False),
        (OutboundConfig(allow_loopback=False), "localhost", True),
        (OutboundConfig(allow_loopback=False), "db.localhost.", True),
        (OutboundConfig(allow_loopback=False), "::1", True),
        (OutboundConfig(allowed_hosts=("a",)), "b", True),
        (OutboundConfig(allowed_hosts=("a",)), "10.0.0.1", True),
        (OutboundConfig(allowed_networks=("10.0.0.0/8",)), "b", False),  # its addresses decide
        (OutboundConfig(allowed_networks=("10.0.0.0/8",)), "10.0.0.1", False),
        (OutboundConfig(allowed_networks=("10.0.0.0/8",)), "11.0.0.1", True),
        (OutboundConfig(denied_hosts=("b",)), "B", True),
    ],
)
def test_a_name_alone_is_denied_where_no_address_could_help(config: OutboundConfig, host: str, is_denied: bool) -> None:
    assert bool(OutboundPolicy(config).fault_of_name(host, 80)) == is_denied


def test_a_port_that_is_not_known_is_not_held_against_a_name() -> None:
    policy = OutboundPolicy(OutboundConfig(allowed_ports=("443",)))
    assert policy.fault_of_name("a", None) == ""
    assert policy.fault_of_name("a", 80) != ""


def test_settings_take_networks_patterns_and_ports() -> None:
    assert Network().convert("10.0.0.1") == "10.0.0.1/32"
    assert HostPattern().convert("*.Plant.example") == "*.plant.example"
    assert PortRange().convert(443) == "443"
    for kind, text in (
        (Network(), "10.0.0.1/8"),
        (Network(), "plant.example"),
        (HostPattern(), "10.0.0.1"),
        (HostPattern(), "a b"),
        (PortRange(), "90-80"),
        (PortRange(), "0"),
        (PortRange(), "65536"),
    ):
        with pytest.raises(RefusedError):
            kind.convert(text)
