"""Settings of connectors and actions of services of Amazon Web Services: `kinesis`, `dynamo`, `sqs`."""

from dataclasses import dataclass
from typing import ClassVar

from heliograph.config.actions.http import BaseUrl
from heliograph.config.actions.interface import (
    ONE_CONNECTION,
    ActionConfig,
    ConnectorConfig,
    RowTemplate,
    SentTemplate,
    ignored,
)
from heliograph.settings.addresses import url_address
from heliograph.settings.aws import QUEUE_URL, REGION_SUMMARY, Region, check_queue
from heliograph.settings.fields import optional, optional_section, required, required_section, setting
from heliograph.settings.kinds import Boolean, Integer, RefusedError, SecretText, Text
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls


@dataclass(frozen=True, kw_only=True)
class AwsConnectorConfig(ConnectorConfig):
    url_setting: ClassVar[str]

    aws_access_key_id: str = required(Text("the id of an access key", r"\S+"), "The id of the access key.")
    aws_secret_access_key: Secret = required(SecretText(), "Its secret access key, or `file://PATH` with it.")
    region: str | None = optional(Region(), REGION_SUMMARY)
    tls: ClientTls | None = optional_section(
        ClientTls, "TLS, where the URL begins with https.", name="ssl", has_switch=True
    )
    pool_size: int = ignored(Integer(1), 8, ONE_CONNECTION)

    def __post_init__(self) -> None:
        if "@" in self.base_url:
            raise RefusedError("has a login: give aws_access_key_id and aws_secret_access_key", self.url_setting)

    @property
    def base_url(self) -> str:
        """Where the service is."""
        return str(getattr(self, self.url_setting))

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return (url_address(self.base_url),)


@dataclass(frozen=True, kw_only=True)
class EndpointConnectorConfig(AwsConnectorConfig):
    url_setting = "endpoint"

    endpoint: str = required(BaseUrl(), "Where the service is, such as `https://sqs.eu-west-1.amazonaws.com`.")
    max_retries: int = setting(Integer(0, 99), 2, "How often a request is tried again before its batch is.")


@dataclass(frozen=True, kw_only=True)
class DynamoConnectorConfig(AwsConnectorConfig):
    url_setting = "url"

    url: str = required(BaseUrl(), "Where DynamoDB is, such as `https://dynamodb.eu-west-1.amazonaws.com`.")


@dataclass(frozen=True, kw_only=True)
class KinesisParameters:
    stream_name: str = required(Text("the name of a stream", r"[a-zA-Z0-9_.-]{1,128}"), "The stream.")
    partition_key: str = required(
        RowTemplate("a template of a partition key", r"(?s).+"),
        "Template of the partition key, which says which shard a record goes to.",
    )
    payload_template: str = setting(SentTemplate(), "${.}", "Template of the record; empty is the row as JSON.")


@dataclass(frozen=True, kw_only=True)
class KinesisAction(ActionConfig):
    parameters: KinesisParameters = required_section(KinesisParameters, "The record.")


@dataclass(frozen=True, kw_only=True)
class DynamoParameters:
    table: str = required(Text("the name of a table", r"[a-zA-Z0-9_.-]{3,255}"), "The table, which must be there.")
    hash_key: str = required(Text("the name of an attribute"), "The attribute that is the partition key of the table.")
    range_key: str | None = optional(
        Text("the name of an attribute"), "The attribute that is its sort key, where it has one."
    )
    template: str = setting(
        SentTemplate(), "", "Template of the item, a JSON object whose members are attributes; empty is the row."
    )
    undefined_vars_as_null: bool = ignored(Boolean(), False, "what a row lacks is null")


@dataclass(frozen=True, kw_only=True)
class DynamoAction(ActionConfig):
    parameters: DynamoParameters = required_section(DynamoParameters, "The item.")


@dataclass(frozen=True, kw_only=True)
class SqsParameters:
    queue_url: str = required(
        QUEUE_URL,
        "The queue; one that keeps an order ends with `.fifo`. Requests go to the endpoint of the connector.",
    )
    message_body: str = setting(SentTemplate(), "${.}", "Template of the body; empty is the row as JSON.")
    message_group_id: str | None = optional(
        RowTemplate("a template of a group", r"(?s).+"),
        "Template of the group, within which a `.fifo` queue keeps the order, and which it needs.",
    )
    message_deduplication_id: str | None = optional(
        RowTemplate("a template of an id", r"(?s).+"),
        "Of a `.fifo` queue: template of the id by which it leaves doubles of five minutes out; without, an id of the "
        "row, the same whenever its batch runs again.",
    )
    delay_seconds: int | None = optional(
        Integer(0, 900), "How many seconds a message is hidden at first; a `.fifo` queue has one for all its messages."
    )

    def __post_init__(self) -> None:
        check_queue(self.queue_url, self.message_group_id, self.message_deduplication_id, self.delay_seconds)


@dataclass(frozen=True, kw_only=True)
class SqsAction(ActionConfig):
    parameters: SqsParameters = required_section(SqsParameters, "The message.")
