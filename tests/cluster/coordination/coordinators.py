"""Coordinators for tests: how one of a cluster of etcd is made, and what most tests do with any."""

import ssl
from collections.abc import AsyncIterator

from heliograph.cluster.coordination.etcd import EtcdCoordinator, EtcdLogin
from heliograph.cluster.coordination.interface import Changes, CommitOutcome, Coordinator, Put
from heliograph.outbound import Outbound
from heliograph.outbound.http import AsyncDialedTransport
from support.etcd import Etcd


def a_coordinator(etcd: Etcd, login: EtcdLogin | None = None, first: int = 0) -> EtcdCoordinator:
    context = ssl.create_default_context(cafile=etcd.cafile) if etcd.cafile else True
    transport = AsyncDialedTransport(Outbound().dialer("cluster.coordination"), context)
    endpoints = [*etcd.endpoints[first:], *etcd.endpoints[:first]]
    return EtcdCoordinator(endpoints, transport, login, timeout_s=2.0)


async def put(coordinator: Coordinator, key: str, value: bytes) -> int:
    committed = await coordinator.commit((), [Put(key, value)])
    assert committed.outcome is CommitOutcome.COMMITTED
    return committed.revision


async def first_of(watch: AsyncIterator[Changes], count: int = 1) -> list[Changes]:
    found: list[Changes] = []
    listens = await anext(watch)
    assert not listens.records
    async for changes in watch:
        found.append(changes)
        if len(found) == count:
            break
    return found
