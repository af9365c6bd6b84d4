"""An OpenLDAP to test against, with a password, on a free port of the loopback."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.certificates import Authority
from support.mosquitto import free_port
from support.servers import Stoppable, program

BASE = "dc=example,dc=com"
ADMIN = f"cn=admin,{BASE}"
ADMIN_PASSWORD = "p'ss wörd"

# The attributes that EMQX's authentication with LDAP has by default.
_SCHEMA = """
attributetype ( 1.3.6.1.4.1.11.2.53.2.2.3.1.2.3.4.1 NAME 'isSuperuser'
  EQUALITY booleanMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.7 SINGLE-VALUE )
attributetype ( 1.3.6.1.4.1.11.2.53.2.2.3.1.2.3.4.2 NAME 'isEnabled'
  EQUALITY booleanMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.7 SINGLE-VALUE )
attributetype ( 1.3.6.1.4.1.11.2.53.2.2.3.1.2.3.4.3 NAME ( 'mqttPublishTopic' 'mpt' )
  EQUALITY caseExactMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )
attributetype ( 1.3.6.1.4.1.11.2.53.2.2.3.1.2.3.4.4 NAME ( 'mqttSubscriptionTopic' 'mst' )
  EQUALITY caseExactMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )
attributetype ( 1.3.6.1.4.1.11.2.53.2.2.3.1.2.3.4.5 NAME ( 'mqttPubSubTopic' 'mpst' )
  EQUALITY caseExactMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )
attributetype ( 1.3.6.1.4.1.11.2.53.2.2.3.1.2.3.4.6 NAME ( 'mqttAclRule' 'mar' )
  EQUALITY caseExactMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )
attributetype ( 1.3.6.1.4.1.11.2.53.2.2.3.1.2.3.4.7 NAME 'mqttAclTtl'
  EQUALITY caseExactMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )
objectclass ( 1.3.6.1.4.1.11.2.53.2.2.3.1.2.3.5.1 NAME 'mqttUser' SUP top AUXILIARY
  MAY ( isSuperuser $ isEnabled $ mqttPublishTopic $ mqttSubscriptionTopic $ mqttPubSubTopic $ mqttAclRule
    $ mqttAclTtl ) )
"""


@dataclass(frozen=True)
class OpenLdap:
    """A running server.

    Attributes:
        port: Where it listens.
        server: What stops it and starts it again.
        tls_port: Where it listens with TLS from the first byte on.
        cafile: Who has signed its certificate.
    """

    port: int
    server: Stoppable
    tls_port: int
    cafile: Path

    def add(self, ldif: str) -> None:
        """Add entries, as its administrator."""
        command = [program("ldapadd"), "-x", "-H", f"ldap://127.0.0.1:{self.port}", "-D", ADMIN, "-w", ADMIN_PASSWORD]
        subprocess.run(command, input=ldif, text=True, check=True, capture_output=True)

    def user(self, uid: str, password: str, *more: str) -> None:
        """Add a user below `ou=users`; its password is a text or a hash."""
        lines = [
            f"dn: uid={uid},ou=users,{BASE}",
            *("objectClass: account", "objectClass: simpleSecurityObject", "objectClass: mqttUser"),
            *(f"uid: {uid}", f"userPassword: {password}", *more),
        ]
        self.add("\n".join(lines) + "\n")


@contextmanager
def openldap(folder: Path) -> Iterator[OpenLdap]:
    """A server until the block ends."""
    slapd, port, tls_port = program("slapd"), free_port(), free_port()
    authority = Authority(folder)
    certificate = authority.server()
    (folder / "mqtt.schema").write_text(_SCHEMA)
    (folder / "data").mkdir()
    schemas = Path("/etc/ldap/schema")
    settings = folder / "slapd.conf"
    settings.write_text(
        f"include {schemas}/core.schema\ninclude {schemas}/cosine.schema\ninclude {folder}/mqtt.schema\n"
        f"pidfile {folder}/slapd.pid\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\n"
        f"TLSCACertificateFile {authority.cafile}\n"
        f"TLSCertificateFile {certificate}\nTLSCertificateKeyFile {certificate}\n"
        # A bind with a name and no password succeeds, as it does on many servers.
        "allow bind_anon_dn bind_anon_cred\n"
        f'database mdb\nsuffix "{BASE}"\nrootdn "{ADMIN}"\nrootpw "{ADMIN_PASSWORD}"\ndirectory {folder}/data\n'
        "dbnosync\n"
        "access to attrs=userPassword by anonymous auth by * none\naccess to * by * read\n",
        encoding="utf-8",
    )
    command = [slapd, "-f", str(settings), "-h", f"ldap://127.0.0.1:{port} ldaps://127.0.0.1:{tls_port}", "-d", "stats"]
    with Stoppable(command, "slapd starting") as server:
        found = OpenLdap(port, server, tls_port, authority.cafile)
        found.add(
            f"dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: example\n\n"
            f"dn: ou=users,{BASE}\nobjectClass: organizationalUnit\nou: users\n"
        )
        yield found
