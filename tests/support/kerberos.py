"""A Kerberos realm to test against: a KDC on a free port of the loopback, with principals, keytabs and tickets."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.mosquitto import free_port
from support.servers import program, running

REALM = "EXAMPLE.COM"
SERVICE = f"mqtt/node.example.com@{REALM}"


@dataclass(frozen=True)
class Realm:
    """A realm with a KDC that runs.

    Attributes:
        keytab: The keys of `SERVICE`.
    """

    folder: Path
    keytab: Path

    def user(self, name: str, password: str) -> None:
        """Add a user."""
        _admin(f"addprinc -pw {password} {name}")

    def context(self, name: str, password: str, service: str = SERVICE) -> Any:
        """The client's side of an exchange with a service, for a user with a new ticket."""
        import gssapi
        from gssapi.raw import acquire_cred_with_password

        kerberos = gssapi.MechType.kerberos
        who = gssapi.Name(f"{name}@{REALM}", gssapi.NameType.kerberos_principal)
        found = acquire_cred_with_password(who, password.encode(), usage="initiate", mechs=[kerberos])
        target = gssapi.Name(service, gssapi.NameType.kerberos_principal)
        return gssapi.SecurityContext(
            name=target,
            creds=gssapi.Credentials(found.creds),
            usage="initiate",
            mech=kerberos,
            flags=int(gssapi.RequirementFlag.mutual_authentication),
        )


@contextmanager
def kerberos(folder: Path) -> Iterator[Realm]:
    """A realm until the block ends, in which the environment of this process names it."""
    pytest.importorskip("gssapi", reason="gssapi is not installed: it builds with libkrb5-dev")
    kdc, create, port = program("krb5kdc"), program("kdb5_util"), free_port()
    settings = {"KRB5_CONFIG": folder / "krb5.conf", "KRB5_KDC_PROFILE": folder / "kdc.conf"}
    settings["KRB5_CONFIG"].write_text(
        f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_realm = false\ndns_lookup_kdc = false\nrdns = false\n"
        f"dns_canonicalize_hostname = false\nudp_preference_limit = 1\ndefault_ccache_name = MEMORY:tests\n"
        f"[realms]\n{REALM} = {{\nkdc = 127.0.0.1:{port}\n}}\n"
    )
    settings["KRB5_KDC_PROFILE"].write_text(
        f"[kdcdefaults]\nkdc_ports = {port}\nkdc_tcp_ports = {port}\n"
        f"[realms]\n{REALM} = {{\ndatabase_name = {folder}/principal\nkey_stash_file = {folder}/stash\n"
        f"acl_file = {folder}/kadm5.acl\nsupported_enctypes = aes256-cts:normal\n}}\n"
        f"[logging]\nkdc = STDERR\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, path in settings.items():
            patch.setenv(name, str(path))
        patch.setenv("KRB5RCACHETYPE", "none")
        subprocess.run([create, "create", "-s", "-r", REALM, "-P", "master"], check=True, capture_output=True)
        _admin(f"addprinc -randkey {SERVICE}")
        keytab = folder / "mqtt.keytab"
        _admin(f"ktadd -k {keytab} {SERVICE}")
        with running([kdc, "-n"], "commencing operation"):
            yield Realm(folder, keytab)


def _admin(command: str) -> None:
    subprocess.run(
        [program("kadmin.local"), "-q", command], check=True, capture_output=True, env=os.environ | {"LC_ALL": "C"}
    )
