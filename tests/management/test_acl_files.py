"""Files of rules that requests bring at the same time."""

from pathlib import Path

from heliograph.management.api.acl_files import AclFiles


def test_rules_that_two_requests_bring_stay_where_one_of_them_is_refused(tmp_path: Path) -> None:
    first, second = AclFiles(tmp_path), AclFiles(tmp_path)
    file = first.write("{allow, all}.\n")
    assert second.write("{allow, all}.\n") == file
    first.remove_new(file)
    assert file.read_text() == "{allow, all}.\n"
    second.remove_new(file)
    assert file.exists(), "it was there before"


def test_rules_that_one_request_brings_go_where_it_is_refused(tmp_path: Path) -> None:
    files = AclFiles(tmp_path)
    files.remove_new(files.write("{allow, all}.\n"))
    assert list(tmp_path.iterdir()) == []
