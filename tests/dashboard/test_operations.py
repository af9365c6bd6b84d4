"""The page of the API: its operations are found, read and tried."""

import pytest

from support.browser import Dashboard, expect
from support.management import ManagedNode

pytestmark = pytest.mark.service


def test_operations_are_found_and_tried(admin: Dashboard, managed: ManagedNode) -> None:
    page = admin.open("api").page
    page.get_by_label("Search").fill("get banned")
    expect(page.get_by_text("1 operation", exact=True)).to_be_visible()
    page.get_by_text("/banned", exact=True).click()
    expect(page.get_by_text("needs the scope clients:read")).to_be_visible()
    attempt = page.get_by_role("form", name="Try GET /banned")
    attempt.get_by_label("limit").fill("7")
    attempt.get_by_role("button", name="Send GET").click()
    expect(attempt.get_by_label("Answer")).to_contain_text('"limit": 7')
    admin.check_access()

    page.get_by_label("Search").fill("post /banned")
    page.get_by_text("/banned", exact=True).click()
    attempt = page.get_by_role("form", name="Try POST /banned")
    attempt.get_by_label("Body").fill('{"as": "clientid", "who": "tried"}')
    attempt.get_by_role("button", name="Send POST").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert "tried" not in managed.api.get("/banned").text
    attempt.get_by_role("button", name="Send POST").click()
    page.get_by_role("dialog").get_by_role("button", name="Send POST").click()
    expect(attempt.get_by_label("Answer")).to_contain_text('"tried"')
    assert "tried" in managed.api.get("/banned").text
    admin.expected_errors.append("400")
    attempt.get_by_label("Body").fill('{"as": "nothing", "who": "tried"}')
    attempt.get_by_role("button", name="Send POST").click()
    page.get_by_role("dialog").get_by_role("button", name="Send POST").click()
    expect(attempt.get_by_role("alert")).to_be_visible()
    expect(attempt.get_by_text("Status 400, code BAD_REQUEST")).to_be_visible()
    managed.api.delete("/banned/clientid/tried")


def test_a_file_is_sent(admin: Dashboard, managed: ManagedNode) -> None:
    name = managed.api.post("/data/export", json={"table_sets": ["banned"]}).json()["filename"]
    archive = managed.api.get(f"/data/files/{name}").content
    assert managed.api.delete(f"/data/files/{name}").status_code == 204
    page = admin.open("api").page
    page.get_by_label("Search").fill("post data/files")
    page.get_by_text("/data/files", exact=True).click()
    attempt = page.get_by_role("form", name="Try POST /data/files")
    attempt.get_by_label("filename").set_input_files(
        {"name": "tried.tar.gz", "mimeType": "application/gzip", "buffer": archive}
    )
    attempt.get_by_role("button", name="Send POST").click()
    page.get_by_role("dialog").get_by_role("button", name="Send POST").click()
    expect(attempt.get_by_label("Answer")).to_contain_text("(no content)")
    assert "tried.tar.gz" in managed.api.get("/data/files").text
    page.get_by_label("Search").fill("post import_users")
    page.get_by_text("import_users").click()
    attempt = page.get_by_role("form", name="Try POST")
    expect(attempt.get_by_label("filename")).to_be_visible()
    attempt.get_by_label("Sent as").select_option("text/csv")
    attempt.get_by_label("Body").fill("user_id,password,is_superuser")
    admin.check_access()
    assert managed.api.delete("/data/files/tried.tar.gz").status_code == 204
