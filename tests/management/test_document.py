"""The document of the API: what it says is valid, and what is answered is what it says."""

import subprocess
import sys
from pathlib import Path
from urllib.parse import urljoin

import pytest
import yaml

from support.management import KEY, SECRET, ManagedNode

# What ends or changes the node that all tests of the module ask, lasts, or is 503 on it: other tests see to these.
_NOT_ASKED = (
    r"/(listeners|configs|authentication|trace/live|heliograph/(trace|messages|rule_replays)"
    r"|file_transfer/file|management)"
)
_EXAMPLES = 2
# An unknown node is answered with 500, as EMQX does; to schemathesis that is a fault.
_CONFIGURATION = '[parameters]\n"query.node" = "heliograph@127.0.0.1"\n'
# The node checks a body that is configuration, and says more than a schema can: some that fit the schema are refused.
_UNCHECKED = ("positive_data_acceptance",)


@pytest.fixture(scope="module")
def managed(managed_process: ManagedNode) -> ManagedNode:
    """A node that the requests of another program keep busy."""
    return managed_process


def test_both_forms_are_valid(managed: ManagedNode) -> None:
    import openapi_spec_validator  # heavy: not while tests are collected

    document = managed.api.get("/openapi.json").json()
    openapi_spec_validator.validate(document)
    older = managed.api.get(f"{managed.url}/api-docs/swagger.json").json()
    openapi_spec_validator.validate(older)
    assert (document["openapi"], older["openapi"]) == ("3.1.0", "3.0.3")
    assert document["servers"] == [{"url": "/api/v5"}]
    assert yaml.load(managed.api.get("/openapi.yaml").text, Loader=yaml.CSafeLoader) == document


def test_every_operation_says_who_may_call_it_and_has_a_name(managed: ManagedNode) -> None:
    document = managed.api.get("/openapi.json").json()
    operations = [(path, one) for path, item in document["paths"].items() for one in item.values()]
    ids = [one["operationId"] for _, one in operations]
    assert len(ids) == len(set(ids))
    for path, one in operations:
        assert one["security"] == [] or "x-scope" in one, path
        assert one["summary"], path


def test_the_path_of_its_page_leads_to_the_dashboard(managed: ManagedNode) -> None:
    for path in ("/api-docs", "/api-docs/index.html"):
        answer = managed.api.get(managed.url + path)
        assert urljoin(managed.url + path, answer.headers["location"]) == f"{managed.url}/#/api"


@pytest.mark.timeout(330)
def test_answers_are_as_the_document_says(managed: ManagedNode, tmp_path: Path) -> None:
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(_CONFIGURATION)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(configuration)]
    command += ["run", f"{managed.url}/api/v5/openapi.json"]
    command += ["--auth", f"{KEY}:{SECRET}", "--checks", "all", "--exclude-checks", ",".join(_UNCHECKED)]
    command += ["--exclude-path-regex", _NOT_ASKED, "--phases", "fuzzing"]
    command += ["--max-examples", str(_EXAMPLES), "--seed", "1", "--generation-deterministic", "--no-color"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout[-20_000:] + ended.stderr[-2_000:]
