"""What a HOCON text may cost: the caps that turn hostile or mistaken input into an error instead of an outage.

The language itself has no limits. A configuration is read once at start and on every live change, in the broker's own
process, so each cap is far above what configurations need and low enough to answer within seconds.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ParsingLimits:
    """Caps on one read of a document with everything that it includes.

    Attributes:
        file_bytes: Size of one file or text.
        tokens: Words, values and punctuation marks of a document with everything that it includes; each takes a few
            microseconds and some hundred bytes of memory while it is read.
        depth: Levels of objects and arrays inside each other, in the text and in the value.
        integer_digits: Digits of one integer (conversion takes quadratic time).
        include_depth: Files that include one another in one chain.
        includes: Inclusions in total; two includes per file double at each level.
        expansion: Weight that substitutions may add to what is written: a value weighs 16 and a character 1.
        steps: Evaluation steps beyond those that the size of the text explains.
    """

    file_bytes: int = 16 * 1024 * 1024
    tokens: int = 1_000_000
    depth: int = 500
    integer_digits: int = 100_000
    include_depth: int = 64
    includes: int = 1_000
    expansion: int = 16 * 1024 * 1024
    steps: int = 1_000_000


DEFAULT_LIMITS = ParsingLimits()
