"""What `heliograph.hocon` exports, imported all at once, when the first name of it is used."""

from heliograph.hocon.document import parse_file as parse_file
from heliograph.hocon.document import parse_text as parse_text
from heliograph.hocon.environment import Override as Override
from heliograph.hocon.environment import apply_environment as apply_environment
from heliograph.hocon.environment import apply_overrides as apply_overrides
from heliograph.hocon.environment import environment_overrides as environment_overrides
from heliograph.hocon.errors import HoconError as HoconError
from heliograph.hocon.errors import SourcePosition as SourcePosition
from heliograph.hocon.files import Files as Files
from heliograph.hocon.files import LocalFiles as LocalFiles
from heliograph.hocon.files import MemoryFiles as MemoryFiles
from heliograph.hocon.limits import ParsingLimits as ParsingLimits
from heliograph.hocon.values import Node as Node
from heliograph.hocon.values import Plain as Plain
from heliograph.hocon.values import Scalar as Scalar
from heliograph.hocon.values import scalar_json as scalar_json
from heliograph.hocon.values import to_json as to_json
from heliograph.hocon.values import to_plain as to_plain
