"""Transports run on uvloop, as in production; certificates are made by the tests."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

from support.certificates import Authority


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))
