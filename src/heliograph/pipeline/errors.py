"""The errors of the package `pipeline`, one class for each party that can be at fault.

Foreign exceptions (Arrow Flight's, py4j's, the operating system's) are translated into these where they enter.
Spark carries errors of its worker processes as text, so every message is a complete sentence by itself.
"""

import re
from typing import ClassVar, Final

# The last line of a Python stack trace, with the name of the error in front of what it says.
_PYTHON_ERROR: Final = re.compile(r"^[ ]*[A-Za-z_][\w.]*(?:Error|Exception): (.+)$", re.MULTILINE)


class PipelineError(Exception):
    """Something in the pipeline failed; the message says what, where and what to do next."""

    code: ClassVar[str] = "pipeline"


class OptionError(PipelineError):
    code: ClassVar[str] = "pipeline_option"

    def __init__(self, option: str, value: object, valid: str) -> None:
        super().__init__(f"option {option} is {value!r}, but must be {valid}")


class RuleFileError(PipelineError):
    """A rule file of the pipeline says something that cannot be run."""

    code: ClassVar[str] = "pipeline_rule_file"

    def __init__(self, *mistakes: str) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class ReaderUnavailableError(PipelineError):
    code: ClassVar[str] = "pipeline_reader_unavailable"


class DataLossError(PipelineError):
    """Messages were removed by retention before a stream of Spark had read them."""

    code: ClassVar[str] = "pipeline_data_loss"


class PayloadError(PipelineError):
    """A payload cannot be decoded, and the option ``mode`` is ``FAILFAST``."""

    code: ClassVar[str] = "pipeline_payload"


class ReaderRefusedError(PipelineError):
    """The storage reader answered a request with an error, such as an unknown database or a malformed filter."""

    code: ClassVar[str] = "pipeline_reader_refused"


class DatabaseAbsentError(ReaderRefusedError):
    """The storage reader has no such database, or does not show it to this caller."""

    code: ClassVar[str] = "pipeline_database_absent"


class PublishError(PipelineError):
    code: ClassVar[str] = "pipeline_publish"


class SinkError(PipelineError):
    code: ClassVar[str] = "pipeline_sink"


class CheckpointInUseError(PipelineError):
    code: ClassVar[str] = "pipeline_checkpoint_in_use"


class DefinitionChangedError(PipelineError):
    """A query was changed so that its checkpoint does not fit it any more."""

    code: ClassVar[str] = "pipeline_definition_changed"


class BackfillError(PipelineError):
    """A backfill would leave messages out or bring some twice."""

    code: ClassVar[str] = "pipeline_backfill"


class JavaNotFoundError(PipelineError):
    code: ClassVar[str] = "pipeline_java_not_found"


class SparkEndedError(PipelineError):
    """The Java process of Spark ended while the pipeline was running."""

    code: ClassVar[str] = "pipeline_spark_ended"


class SparkStartError(PipelineError):
    code: ClassVar[str] = "pipeline_spark_start"


def sentence_of(error: BaseException) -> str:
    """What an error says, in one sentence.

    A failure in Python code that Spark ran carries the stack traces of both; what happened is said by its last error.
    """
    text = str(error)
    errors = _PYTHON_ERROR.findall(text)
    if errors:
        return str(errors[-1])
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
