"""What clients of Kafka by librdkafka are given of a login and of TLS, in librdkafka's words."""

from heliograph.settings.tls import ClientTls


def security_of(username: str | None, tls: ClientTls | None) -> dict[str, str]:
    """The protocol, which Java's client has in the same words."""
    kind = "SASL_" if username is not None else ""
    return {"security.protocol": f"{kind}{'SSL' if tls is not None else 'PLAINTEXT'}"}


def login_settings(
    mechanism: str, username: str | None, password: str | None, tls: ClientTls | None
) -> dict[str, str | int | bool]:
    """Who connects, and how brokers are verified; with the password."""
    settings: dict[str, str | int | bool] = {**security_of(username, tls)}
    if username is not None:
        settings |= {"sasl.mechanism": mechanism, "sasl.username": username, "sasl.password": password or ""}
    if tls is not None:
        files = {
            "ssl.ca.location": tls.cacertfile,
            "ssl.certificate.location": tls.certfile,
            "ssl.key.location": tls.keyfile or tls.certfile,
        }
        settings |= {name: file for name, file in files.items() if file}
        settings["enable.ssl.certificate.verification"] = tls.verify
    return settings
