"""Why an erasure beside a running node is not made, or not to its end. Nothing of others is lost."""

from heliograph.storage.errors import StorageError


class ErasureFailedError(StorageError):
    """It did not come to its end; the same erasure, made again, goes on."""

    code = "erasure_failed"
    advice = "Erase again, which goes on where this ended"
    reason = "the erasure failed"

    def __init__(self, problem: str) -> None:
        super().__init__(problem, database="")


class ErasureRefusedError(ErasureFailedError):
    """It was not begun."""

    code = "erasure_refused"
    advice = "Nothing was erased"
