"""Variform: expressions of one line that make a string out of what is known of a client or a message.

They stand in settings such as client attributes and message transformations: `concat([zone, '/', clientid])`.
"""

from heliograph.rules.variform.expression import Variform, text_of_result
from heliograph.rules.variform.syntax import VariformError, VariformEvaluationError, VariformSyntaxError

__all__ = ["Variform", "VariformError", "VariformEvaluationError", "VariformSyntaxError", "text_of_result"]
