"""The codes of errors and the page that explains them are the same."""

import importlib
import pkgutil
import re
from pathlib import Path

import heliograph
import heliograph_bench
from heliograph.rpc import codes as rpc_codes
from heliograph.storage.reader.request import INVALID_REQUEST

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def codes_in_code() -> set[str]:
    """The codes of every exception class of the package that has one of its own."""
    codes = {INVALID_REQUEST}  # made of any fault in a request's form, so it has no class
    packages = (heliograph, heliograph_bench)
    for module in [
        each for package in packages for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]:
        if module.name.endswith("__main__"):
            continue
        for thing in vars(importlib.import_module(module.name)).values():
            if isinstance(thing, type) and issubclass(thing, Exception) and isinstance(vars(thing).get("code"), str):
                codes.add(vars(thing)["code"])
    return codes | codes_of_answers()


def codes_of_answers() -> set[str]:
    """Those that a node answers requests with: the server's own, and those that methods raise."""
    own = {code for name, code in vars(rpc_codes).items() if name.isupper()}
    texts = [path.read_text() for path in Path(rpc_codes.__file__).parents[1].rglob("*.py")]
    return (
        own
        | {code for text in texts for code in re.findall(r'\bRpcError\(\s*"([a-z_]+)"', text)}
        | {code for text in texts for code in re.findall(r'\b_fail\("([a-z_]+)"', text)}
    )


def test_every_code_is_explained_and_no_other() -> None:
    explained = re.findall(r"^\| `([a-z_]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert explained == sorted(explained)
    assert set(explained) == codes_in_code()
