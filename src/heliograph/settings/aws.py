"""What settings of services of Amazon Web Services share: the region that an endpoint belongs to."""

import re
from typing import Final
from urllib.parse import urlsplit

#: The name of a stream, table or queue by which a connection is tested alone: that it is not there is no fault.
PROBED_NAME: Final = "heliograph-connection-test"

_DEFAULT_REGION: Final = "us-east-1"
# Such as kinesis.eu-west-1.amazonaws.com, and those of a VPC.
_WITH_REGION: Final = re.compile(
    r"(?:.+\.)?(?:kinesis|dynamodb|sqs)(?:-fips)?\.([a-z]{2}[a-z0-9-]*-\d+)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)"
)


def region_of(endpoint: str) -> str:
    """The region in the name of an endpoint; `us-east-1` where it names none, as a server of one's own."""
    found = _WITH_REGION.fullmatch((urlsplit(endpoint).hostname or "").lower())
    return found[1] if found is not None else _DEFAULT_REGION
