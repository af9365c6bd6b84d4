"""The client of the storage reader where that asks for tokens and speaks TLS."""

import asyncio
from pathlib import Path

import pytest

from heliograph.pipeline.datasource.client import MessageSelection, StorageClient
from heliograph.pipeline.errors import OptionError, ReaderRefusedError, ReaderUnavailableError
from heliograph.storage.reader.process import ReaderProcess
from heliograph.storage.reader.security import ReaderSecurity, ReaderToken, digest_of
from support.certificates import Authority

pytestmark = pytest.mark.service

SECRET = "correct horse battery staple"


async def test_a_client_with_a_token_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    token = ReaderToken("spark", digest_of(SECRET), ("weather/#",), ("messages",))
    security = ReaderSecurity((token,), certfile=str(authority.server()))
    reader = ReaderProcess(tmp_path / "data", "127.0.0.1:0", security=lambda: security)
    await reader.start()
    try:
        await asyncio.to_thread(_ask, reader.bind, str(authority.cafile))
    finally:
        await reader.stop()


def _ask(bind: str, ca: str) -> None:
    with StorageClient(bind, token=SECRET, tls_ca=ca) as client:
        assert client.info() == {"databases": []}
        with pytest.raises(ReaderRefusedError, match="does not allow the topic filter '#'") as refused:
            client.plan(MessageSelection())
        assert str(refused.value).endswith("allow it.")
    with StorageClient(f"grpc+tls://{bind}", tls_ca=ca) as client:
        with pytest.raises(ReaderRefusedError, match="needs a token, and the request has none") as refused:
            client.info()
        assert str(refused.value).endswith("(option `token` in Spark).")
    with StorageClient(bind, token=SECRET) as client, pytest.raises(ReaderUnavailableError) as away:
        client.info()
    assert f"If it speaks TLS, the endpoint is grpc+tls://{bind}." in str(away.value)
    with StorageClient(f"grpc+tls://{bind}", token=SECRET) as client, pytest.raises(ReaderUnavailableError) as away:
        client.info()
    assert "Does it speak TLS" in str(away.value)
    assert SECRET not in str(away.value) + repr(client)


def test_a_file_of_authorities_that_is_not_there() -> None:
    with pytest.raises(
        OptionError, match=r"option tlsCa is '/nowhere/ca.pem', but must be a PEM file that can be read"
    ):
        StorageClient("127.0.0.1:9", tls_ca="/nowhere/ca.pem")
