"""Archives that others made: what is too large, too many or no archive is refused before it fills memory or disk."""

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.management.backups import archive
from heliograph.management.backups.errors import BackupError

_META = b'{"form": 1, "version": "0", "edition": "", "node": "n", "created_at": 0}'


def _add(tar: tarfile.TarFile, name: str, size: int) -> None:
    member = tarfile.TarInfo(f"emqx-export/{name}")
    member.size = size
    tar.addfile(member, io.BytesIO(_META if size == len(_META) else bytes(size)))


def _long_meta(tar: tarfile.TarFile) -> None:
    _add(tar, archive.META, 65 << 10)


def _long_config(tar: tarfile.TarFile) -> None:
    _add(tar, archive.CLUSTER, (16 << 20) + 1)


def _many_directories(tar: tarfile.TarFile) -> None:
    for number in range(10_001):
        member = tarfile.TarInfo(f"emqx-export/{number}")
        member.type = tarfile.DIRTYPE
        tar.addfile(member)


def _out_of_the_directory(tar: tarfile.TarFile) -> None:
    _add(tar, "data/../../../x", 1)


def _a_link(tar: tarfile.TarFile) -> None:
    member = tarfile.TarInfo("emqx-export/data/certs/x")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    tar.addfile(member)


@pytest.mark.parametrize("fill", [_long_meta, _long_config, _many_directories, _out_of_the_directory, _a_link])
def test_what_does_not_belong_into_an_archive(tmp_path: Path, fill: Callable[[tarfile.TarFile], None]) -> None:
    file, directory = tmp_path / "x.tar.gz", tmp_path / "into"
    directory.mkdir()
    with tarfile.open(file, "w:gz") as tar:
        fill(tar)
        _add(tar, archive.META, len(_META))
    with pytest.raises(BackupError, match="the archive"):
        archive.unpack(file, directory)


def test_a_head_that_says_that_it_is_long(tmp_path: Path) -> None:
    file = tmp_path / "x.tar.gz"
    head = tarfile.TarInfo("emqx-export/x")
    head.type, head.size = tarfile.XHDTYPE, 1 << 40
    file.write_bytes(gzip.compress(head.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 16)))
    with pytest.raises(BackupError, match="head of a file"):
        archive.unpack(file, tmp_path)


def test_a_file_that_the_disk_has_no_room_for(tmp_path: Path) -> None:
    file = tmp_path / "x.tar.gz"
    member = tarfile.TarInfo("emqx-export/mnesia/banned")
    member.size = 60 << 30
    file.write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 16)))
    with pytest.raises(BackupError):
        archive.unpack(file, tmp_path)
    assert not (tmp_path / "mnesia" / "banned").exists() or (tmp_path / "mnesia" / "banned").stat().st_size <= 1 << 16


def test_a_row_that_says_that_it_is_long(tmp_path: Path) -> None:
    file = tmp_path / "banned"
    file.write_bytes(b"\xff\xff\xff\xff" + bytes(100))
    with pytest.raises(BackupError, match="which none has"):
        list(archive.read_rows(file))
