"""What settings of services of Amazon Web Services share: regions, and which settings a queue of SQS has."""

import re
from typing import Final
from urllib.parse import urlsplit

from heliograph.settings.kinds import RefusedError, Text

#: The name of a stream, table or queue by which a connection is tested alone: that it is not there is no fault.
PROBED_NAME: Final = "heliograph-connection-test"

REGION_SUMMARY: Final = "The region; without, that in the name of the endpoint, else us-east-1."
QUEUE_URL: Final = Text("the URL of a queue, as AWS shows it", r"https?://[^\s?#$@]+/[a-zA-Z0-9_-]+(\.fifo)?")
#: What the names of queues end with that keep an order.
FIFO: Final = ".fifo"

_DEFAULT_REGION: Final = "us-east-1"
# Such as kinesis.eu-west-1.amazonaws.com, and those of a VPC.
_WITH_REGION: Final = re.compile(
    r"(?:.+\.)?(?:kinesis|dynamodb|sqs)(?:-fips)?\.([a-z]{2}[a-z0-9-]*-\d+)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)"
)


class Region(Text):
    """The name of a region."""

    def __init__(self) -> None:
        super().__init__("a region such as eu-west-1", r"[a-z][a-z0-9-]{0,61}[a-z0-9]")


def check_queue(url: str, group: str | None, deduplication_id: str | None, delay_seconds: int | None) -> None:
    """Refuse settings of a message that its queue does not take. Raises `RefusedError`."""
    if url.endswith(FIFO):
        if group is None:
            raise RefusedError(f"is missing: a queue whose name ends with {FIFO} needs it", "message_group_id")
        if delay_seconds is not None:
            raise RefusedError(f"a queue whose name ends with {FIFO} has one delay itself", "delay_seconds")
    elif deduplication_id is not None:
        raise RefusedError(f"only a queue whose name ends with {FIFO} heeds it", "message_deduplication_id")


def region_of(endpoint: str) -> str:
    """The region in the name of an endpoint; `us-east-1` where it names none, as a server of one's own."""
    found = _WITH_REGION.fullmatch((urlsplit(endpoint).hostname or "").lower())
    return found[1] if found is not None else _DEFAULT_REGION
