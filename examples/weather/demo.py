"""The whole path on real data: MQTT clients publish, the broker stores, Spark makes tables and alerts of it.

`make demo` runs this; so does `python examples/weather/demo.py`. It starts one Heliograph node and one pipeline,
replays a year of weather at three airports through both, compares everything that comes out with the data itself, and
draws a picture. It ends with 0 if nothing differs, else with 1 after naming what does. Nothing is left running.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
from chart import draw
from observations import Expected, Observation, expect, read_weather, to_messages
from processes import Node, PipelineDriver, ProcessError, prepare_output
from report import Report, check_tables
from stations import AlertSubscriber, replay
from tqdm import tqdm

from heliograph.pipeline.datasource.client import StorageClient

_HERE = Path(__file__).parent
_QUERIES = 3
_DRAIN_DEADLINE_S = 300
_ALERT_DEADLINE_S = 30


def main() -> int:
    """Run the demo; the exit code."""
    parser = argparse.ArgumentParser(
        description="Replay a year of weather through Heliograph and check what comes out."
    )
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="where everything goes (demo-output)")
    parser.add_argument("--days", type=int, default=0, metavar="N", help="replay the first N days only")
    args = parser.parse_args()
    output = prepare_output(args.output)
    report = Report()
    weather = read_weather()
    if args.days:
        days = sorted(weather["time_hour"].str[:10].unique())[: args.days]
        weather = weather[weather["time_hour"].str[:10] <= days[-1]]
    expected = expect(weather)
    try:
        _run(output, to_messages(weather), expected, report)
    except (ProcessError, RuntimeError) as error:
        print(f"\nthe demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nthe demo was interrupted; everything that it started has been stopped", file=sys.stderr)
        return 130
    print(f"\n{report.text()}\n")
    print(f"tables  {output / 'tables'}\npicture {output / 'temperatures.png'}\nlogs    {output / 'logs'}")
    print("The same in a dashboard that moves: make demo-live, which tells its address and how to log in.")
    for mismatch in report.mismatches:
        print(f"MISMATCH {mismatch}", file=sys.stderr)
    return 1 if report.mismatches else 0


def _run(output: Path, messages: list[Observation], expected: Expected, report: Report) -> None:
    with _stage(report, "starting the node"):
        node = Node(output)
    with node:
        rules, mqtt = _HERE / "rules", f"{node.host}:{node.port}"
        subscriber = AlertSubscriber(node.host, node.port)
        with PipelineDriver(rules, output, node.endpoint, mqtt) as pipeline:
            _publish_and_drain(node, pipeline, subscriber, messages, report)
            with _stage(report, "waiting for the alerts"):
                subscriber.wait_for(len(expected.alerts), _ALERT_DEADLINE_S)
            figures = pipeline.figures()
            with _stage(report, "stopping the pipeline"):
                pipeline.end()
        subscriber.close()
        for query in ("weather_obs", "wind_alerts", "daily"):
            report.count(f"read by Spark for {query}", figures[query]["rows_read"], expected.published)
        missing = expected.published - len(expected.observations)
        report.count("without temperature: rule 1 fails", figures["weather_obs"]["rows_failed"], missing)
        report.count("without gust: refused as alerts", figures["wind_alerts"]["rows_refused"], expected.without_gust)
        report.count("rows too late for daily", figures["daily"]["rows_late"], 0)
    with _stage(report, "checking and drawing"):
        daily = check_tables(report, output / "tables", subscriber.alerts, expected)
        alerts = pd.DataFrame(subscriber.alerts, columns=["station", "gust_mph", "observed_at"])
        alerts["observed_at"] = pd.to_datetime(alerts["observed_at"], utc=True)
        draw(daily, alerts, output / "temperatures.png")


def _publish_and_drain(
    node: Node, pipeline: PipelineDriver, subscriber: AlertSubscriber, messages: list[Observation], report: Report
) -> None:
    print(f"3 stations publish {len(messages):,} observations while Spark starts; {_QUERIES} queries process them")
    with _bar("published", len(messages)) as bar, _stage(report, "publishing (Spark starts meanwhile)"):
        published, acknowledged = replay(messages, node.host, node.port, lambda count: _show(bar, count))
    report.count("published", published, len(messages))
    report.count("acknowledged", acknowledged, len(messages))
    with StorageClient(node.endpoint) as client:
        stored = int(client.info("messages")["messages"])
    report.count("stored", stored, len(messages))
    with _bar("processed", _QUERIES * len(messages)) as bar, _stage(report, "draining the pipeline"):
        pipeline.await_drained(len(messages), _DRAIN_DEADLINE_S, lambda count: _show(bar, count))


def _bar(name: str, total: int) -> "tqdm[None]":
    # Where nobody watches, such as in the log of a build, a line now and then is enough.
    interval = 0.2 if sys.stderr.isatty() else 5.0
    return tqdm(total=total, desc=name, unit=" msg", unit_scale=True, mininterval=interval, miniters=1)


def _show(bar: "tqdm[None]", count: int) -> None:
    fresh = min(count, bar.total or count) - bar.n
    if fresh > 0:
        bar.update(fresh)
    elif sys.stderr.isatty():
        bar.refresh()  # the clock goes on, so that a person sees that something does


@contextmanager
def _stage(report: Report, name: str) -> Iterator[None]:
    begin = time.monotonic()
    yield
    report.stages.append((name, time.monotonic() - begin))


if __name__ == "__main__":
    # Arrow and numpy would each start a thread for every core beside Spark's.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
