"""What can go wrong with messages that were offloaded."""

from heliograph.storage.errors import StorageError
from heliograph.storage.interface import StreamIterator


class OffloadError(StorageError):
    """Messages that were offloaded cannot be written to, or read from, where they are kept.

    Attributes:
        iterator: For `next`: where to go on, since everything before it was looked at.
    """

    code = "storage_offload_unreachable"
    advice = "Make that place reachable, with the file as it was written; it is tried again."

    iterator: StreamIterator | None = None


class OffloadPendingError(OffloadError):
    """What was offloaded is being fetched."""

    code = "storage_offload_pending"
    advice = "Ask again in a moment."
