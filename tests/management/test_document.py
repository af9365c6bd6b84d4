"""The document of the API: what it says is valid, and what is answered is what it says."""

import json
import re
from typing import Any, Final
from urllib.parse import urljoin

import pytest
import requests
import yaml
from hypothesis import Phase, given, seed, settings

from support.management import KEY, SECRET, Served

# What ends or changes the node that all tests of the module ask, lasts, or is 503 on it: other tests see to these.
_NOT_ASKED: Final = re.compile(
    r"/(listeners|configs|authentication|trace/live"
    r"|heliograph/(live|trace|messages|message_replays|rule_replays|topic_tree)"
    r"|file_transfer/file|management)"
)
# Of messages that cannot be published 503 is the answer that EMQX gives, too; to schemathesis that is a fault.
_MAY_FAIL: Final = {("/publish/bulk", 503)}
# An unknown node is answered with 500, as EMQX does; to schemathesis that is a fault.
_NODE: Final = "heliograph@127.0.0.1"


@pytest.fixture(scope="module")
def document(managed: Served) -> dict[str, Any]:
    """The document as the API has it."""
    found: dict[str, Any] = managed.api.get("/openapi.json").json()
    return found


def test_both_forms_are_valid(document: dict[str, Any], managed: Served) -> None:
    import openapi_spec_validator  # heavy: not while tests are collected

    older = managed.api.get(f"{managed.url}/api-docs/swagger.json").json()
    for form in (document, older):
        openapi_spec_validator.validate(_with_equal_parts_once(form))
    assert (document["openapi"], older["openapi"]) == ("3.1.0", "3.0.3")
    assert document["servers"] == [{"url": "/api/v5"}]
    assert yaml.load(managed.api.get("/openapi.yaml").text, Loader=yaml.CSafeLoader) == document


def _with_equal_parts_once(document: dict[str, Any]) -> dict[str, Any]:
    """A document in which equal objects are the same, such as answers of errors: the validator looks at each once."""
    known: dict[str, dict[str, Any]] = {}
    found: dict[str, Any] = json.loads(
        json.dumps(document), object_hook=lambda part: known.setdefault(json.dumps(part), part)
    )
    return found


def test_every_operation_says_who_may_call_it_and_has_a_name(document: dict[str, Any]) -> None:
    operations = [(path, one) for path, item in document["paths"].items() for one in item.values()]
    ids = [one["operationId"] for _, one in operations]
    assert len(ids) == len(set(ids))
    for path, one in operations:
        assert one["security"] == [] or "x-scope" in one, path
        assert one["summary"], path


def test_it_names_scopes_and_errors(document: dict[str, Any]) -> None:
    operation = document["paths"]["/nodes/{node}"]["get"]
    assert operation["operationId"] == "getNode"
    assert operation["x-scope"] == "nodes:read"
    assert sorted(operation["responses"]) == ["200", "400", "401", "403", "404", "413", "500", "503"]


def test_every_answer_in_json_has_a_schema(document: dict[str, Any]) -> None:
    found = [
        (operation["operationId"], status, answer["content"]["application/json"])
        for item in document["paths"].values()
        for operation in item.values()
        for status, answer in operation["responses"].items()
        if status.startswith("2") and "application/json" in answer.get("content", {})
    ]
    assert len(found) > 200
    assert [(name, status) for name, status, content in found if not content.get("schema", {}).keys() - {"title"}] == []


def test_the_path_of_its_page_leads_to_the_dashboard(managed: Served) -> None:
    for path in ("/api-docs", "/api-docs/index.html"):
        answer = managed.api.get(managed.url + path)
        assert urljoin(managed.url + path, answer.headers["location"]) == f"{managed.url}/#/api"


@pytest.mark.timeout(330)
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # of the strategies that are made
def test_answers_are_as_the_document_says(document: dict[str, Any], managed: Served) -> None:
    """Each operation is asked for what its schema allows, and then with what it does not."""
    from schemathesis import Config, openapi  # heavy: not while tests are collected
    from schemathesis.core.failures import FailureGroup

    configuration = Config.from_dict({"base-url": f"{managed.url}/api/v5"})
    schema = openapi.from_dict(document, config=configuration)
    failures: list[str] = []
    asked = wrongly_asked = 0
    with requests.Session() as session:
        session.trust_env = False  # looking for proxies takes longer than a request
        found: Any
        for found in schema.get_all_operations():
            operation = found.ok()
            if _NOT_ASKED.match(operation.path):
                continue
            try:
                case = _ask(operation, session)
                asked += 1
                wrongly_asked += _ask_wrongly(case, document["paths"][operation.path][operation.method], session)
            except (Exception, FailureGroup) as failure:  # noqa: BLE001 - all operations are asked
                failures.append(f"{operation.label}: {failure}")
    assert not failures, "\n".join(failures)
    assert asked > 250
    assert wrongly_asked > 100


def _ask(operation: Any, session: requests.Session) -> Any:
    """Ask for an example that is always the same, and check what is answered; the example.

    Raises:
        FailureGroup: The answer is not as the document says.
    """
    from schemathesis.specs.openapi import checks

    asked: list[Any] = []

    @seed(0)  # to derandomize takes more: it looks at the source of what it calls
    @settings(max_examples=1, database=None, phases=[Phase.generate])
    @given(operation.as_strategy())
    def once(case: Any) -> None:
        asked.append(case)
        if "node" in case.query:
            case.query["node"] = _NODE
        # The node checks a body that is configuration, and says more than a schema can: some that fit are refused.
        _check(case, session, excluded_checks=[checks.positive_data_acceptance])

    once()
    return asked[-1]


def _ask_wrongly(case: Any, operation: dict[str, Any], session: requests.Session) -> bool:
    """Ask for the same with a body and values of the query that are of no type that they may have; whether any can be.

    Raises:
        FailureGroup: The answer is not as the document says.
    """
    from schemathesis.specs.openapi import checks

    wrong = {
        one["name"]: "no such"
        for one in operation.get("parameters", ())
        if one["in"] == "query" and one["name"] != "node" and one["schema"].get("type") in ("integer", "boolean")
    }
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if not wrong and body is None:
        return False
    case.query = {**case.query, **wrong}
    if body is not None:
        case.body = "no such" if body["schema"].get("type") == "array" else ["no such"]
    answer = _check(case, session, checks=[checks.response_schema_conformance, checks.status_code_conformance])
    assert 400 <= answer.status_code < 500, f"{answer.status_code} to {case.query} and {case.body}: {answer.text[:200]}"
    return True


def _check(case: Any, session: requests.Session, **which: Any) -> Any:
    answer = case.call(session=session, auth=(KEY, SECRET))
    if (case.operation.path, answer.status_code) not in _MAY_FAIL:
        case.validate_response(answer, transport_kwargs={"session": session, "auth": (KEY, SECRET)}, **which)
    return answer
