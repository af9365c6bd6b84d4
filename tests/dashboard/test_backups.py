"""The page of backups: the schedule, one that is made, verified and found damaged, and one that fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.browser import PASSWORD, USER, Dashboard, expect
from support.management import ManagedNode

pytestmark = pytest.mark.service


def change(managed: ManagedNode, **values: str) -> None:
    """Change settings of `backup` while the node runs, as a person: keys may not say where backups go."""
    body = {"values": {f"backup.{name}": value for name, value in values.items()}}
    with managed.client() as person:
        token = person.post("/login", json={"username": USER, "password": PASSWORD}).json()["token"]
        headers = {"authorization": f"Bearer {token}"}
        answer = person.post("/heliograph/configuration/change", json=body, headers=headers)
    assert answer.status_code == 200, answer.text


@pytest.fixture
def place(admin: Dashboard, managed: ManagedNode, tmp_path: Path) -> Iterator[Path]:
    """Where the node makes backups during the test."""
    change(managed, place=f'"{tmp_path}/place"', every="2h", keep="3")
    yield tmp_path / "place"
    admin.leave()
    change(managed, place="null", every="null", keep="null")


def test_backups_are_made_verified_and_found_damaged(admin: Dashboard, managed: ManagedNode, place: Path) -> None:
    page = admin.open("backups").page
    schedule = page.locator("section").filter(has_text="Schedule")
    expect(schedule).to_contain_text(str(place))
    expect(schedule).to_contain_text("the newest 3")
    expect(schedule).to_contain_text("only on demand")
    expect(page.get_by_text("There is no backup in the place.")).to_be_visible()
    rows = page.get_by_role("row").filter(has_text="Verify")
    for made in (1, 2):
        page.get_by_role("button", name="Back up now").click()
        expect(rows).to_have_count(made)
    newest, oldest = rows.nth(0), rows.nth(1)
    expect(oldest).to_contain_text("full")
    expect(newest).to_contain_text("incremental")
    expect(newest).to_contain_text("all files are there")
    admin.check_access()

    newest.get_by_role("button", name="Verify").click()
    expect(newest).to_contain_text("verified now")
    largest = max((one for one in (place / "content").rglob("*") if one.is_file()), key=lambda one: one.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-1] + b"\0\0")
    page.get_by_role("button", name="Refresh").click()
    newest.get_by_role("button", name="Verify").click()
    expect(newest).to_contain_text("1 problem")
    newest.get_by_text("1 problem").click()
    expect(newest.get_by_role("listitem")).to_contain_text(largest.name)
    admin.check_access()


def test_a_backup_that_fails_says_why_and_is_an_alarm(admin: Dashboard, managed: ManagedNode, place: Path) -> None:
    place.write_text("no directory")
    admin.expected_errors.append("400")
    page = admin.open("backups").page
    page.get_by_role("button", name="Back up now").click()
    failed = page.get_by_role("alert").filter(has_text="The last attempt made no backup:")
    expect(failed).to_contain_text("[backup_failed]")
    assert [one["name"] for one in managed.api.get("/alarms").json()["data"]] == ["backup_failed"]
    place.unlink()
    page.get_by_role("button", name="Back up now").click()
    expect(page.get_by_role("row").filter(has_text="all files are there")).to_have_count(1)
    expect(failed).to_have_count(0)
    assert managed.api.get("/alarms").json()["data"] == []
