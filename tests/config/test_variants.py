"""Lists of groups of several kinds, chosen by the words that they say: authenticators, sources of authorization."""

from pathlib import Path

import pytest

from heliograph.config.authentication import CinfoConfig
from heliograph.config.loading import load_config
from heliograph.config.settings import Config
from heliograph.settings.errors import ConfigError
from support.cases import cases

ONE = "{ mechanism = cinfo, checks = [{ is_match = \"str_eq(clientid, 'c')\", result = allow }] }"


def loaded(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "heliograph.conf"
    file.write_text(text)
    return load_config(file, {})


@cases("text", [f"[{ONE}]", ONE])
def test_one_group_without_a_list_is_a_list_of_one(tmp_path: Path, text: str) -> None:
    (made,) = loaded(tmp_path, f"authentication = {text}").authentication
    assert isinstance(made, CinfoConfig)
    assert made.checks[0].is_match == ("str_eq(clientid, 'c')",)


@cases(
    ("text", "told"),
    [
        ("[{ mechanism = sinfo }]", "authentication.1: mechanism and backend say 'sinfo', expected one of"),
        ("[{ }]", "say nothing, expected one of"),
        (f"[{ONE}, {ONE}]", "authentication.2: there is a cinfo before it"),
        ("[{ mechanism = cinfo }]", "checks needs at least one"),
        (ONE.replace("is_match", "is_mach"), "authentication.checks.1.is_mach: unknown key; did you mean is_match?"),
        ("[5]", "say nothing, expected one of"),
        ("5", "expected a list of objects"),
    ],
)
def test_what_is_wrong_is_told_where_it_stands(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, f"authentication = {text}")
    assert told in str(caught.value)


def test_an_element_can_be_set_by_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "heliograph.conf"
    file.write_text(f"listeners.tcp.default.authentication = [{ONE}]")
    variables = {"HELIOGRAPH_LISTENERS__TCP__DEFAULT__AUTHENTICATION__1__ENABLE": "false"}
    (made,) = load_config(file, variables).listeners.tcp["default"].authentication
    assert not made.enable
