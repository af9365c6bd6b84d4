"""Kinesis, DynamoDB and SQS to test against, on a free port of the loopback.

Amazon's services cannot be started here. moto, which is another implementation of them, checks requests as they do, has
their limits and, where a test asks for that, knows who may do what.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import botocore.session

from support.mosquitto import free_port
from support.servers import Stoppable

REGION = "eu-west-1"
KEY_ID = "AKIATESTTESTTESTTEST"
SECRET = "s3cret/s3cret"


@dataclass(frozen=True)
class Aws:
    """A running server, which `server` stops and starts again; it keeps nothing meanwhile."""

    port: int
    server: Stoppable

    @property
    def url(self) -> str:
        """The endpoint of all services."""
        return f"http://127.0.0.1:{self.port}"

    def section(self, kind: str, more: str) -> str:
        """The section of a sink that writes to it."""
        return section_of(kind, self.url, more)

    def client(self, service: str) -> Any:
        """A client of a service."""
        return botocore.session.Session().create_client(
            service,
            region_name=REGION,
            endpoint_url=self.url,
            aws_access_key_id=KEY_ID,
            aws_secret_access_key=SECRET,
        )

    def queue(self, name: str, **attributes: str) -> str:
        """Create a queue; its URL."""
        made: str = self.client("sqs").create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return made

    def stream(self, name: str) -> None:
        """Create a stream of two shards."""
        self.client("kinesis").create_stream(StreamName=name, ShardCount=2)

    def table(self, name: str, *keys: str) -> None:
        """Create a table with a partition key, and perhaps a sort key, of texts."""
        self.client("dynamodb").create_table(
            TableName=name,
            KeySchema=[
                {"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)
            ],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
            BillingMode="PAY_PER_REQUEST",
        )

    def records(self, stream: str) -> list[tuple[str, bytes]]:
        """Partition key and data of all records of a stream, shard by shard."""
        kinesis, found = self.client("kinesis"), []
        for shard in kinesis.list_shards(StreamName=stream)["Shards"]:
            of_shard = {"StreamName": stream, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
            place = kinesis.get_shard_iterator(**of_shard)["ShardIterator"]
            while records := (answer := kinesis.get_records(ShardIterator=place))["Records"]:
                found += [(one["PartitionKey"], one["Data"]) for one in records]
                place = answer["NextShardIterator"]
        return found

    def messages(self, queue_url: str) -> list[dict[str, Any]]:
        """Take all messages out of a queue."""
        sqs, found = self.client("sqs"), []
        asked = {"QueueUrl": queue_url, "MaxNumberOfMessages": 10, "MessageSystemAttributeNames": ["All"]}
        while messages := sqs.receive_message(**asked).get("Messages"):
            found += messages
            for one in messages:
                sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=one["ReceiptHandle"])
        return found

    def items(self, table: str) -> list[dict[str, Any]]:
        """All items of a table, as the service has them."""
        found: list[dict[str, Any]] = self.client("dynamodb").scan(TableName=table)["Items"]
        return found


def section_of(kind: str, endpoint: str, more: str) -> str:
    """The section of a sink that writes to a service at an endpoint."""
    login = f'access_key_id = {KEY_ID}, secret_access_key = "{SECRET}"'
    return f'{{ type = {kind}, endpoint = "{endpoint}", region = {REGION}, {login}, {more} }}'


@contextmanager
def aws() -> Iterator[Aws]:
    """A server until the block ends."""
    port = free_port()
    command = [sys.executable, "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with Stoppable(command, "Running on", is_killed=True) as server:
        yield Aws(port, server)
