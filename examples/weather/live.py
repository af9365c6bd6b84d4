"""Something that moves, to look at in the dashboard: the weather stations publish at a pace, rules and a pipeline run.

`make demo-live` runs this; so does `python examples/weather/live.py`. It starts one Heliograph node with everything in
it, tells where its dashboard is and how to log in, and goes on until Ctrl-C, which ends all that it started.
"""

import argparse
import itertools
import json
import signal
import sys
import threading
from pathlib import Path

from observations import Observation, read_weather, to_messages
from processes import Node, ProcessError, prepare_output
from stations import AlertSubscriber, Station

_RULES = Path(__file__).parent / "rules"
_READY_S = 60
_CONFIG = """\
# One node on free ports of this machine, with all that its dashboard can show.
listeners.tcp.default.bind = "127.0.0.1:0"
listeners.ws.default {{ enable = true, bind = "127.0.0.1:0" }}
dashboard.listeners.http.bind = "127.0.0.1:0"
durable_storage {{
  messages.topics = ["weather/#"]
  flight.bind = "127.0.0.1:0"
}}
diagnose.messages {{ enable = true, topics = ["weather/#", "alerts/#"] }}
rule_engine.rules.strong_wind {{
  sql = \"\"\"SELECT payload.origin AS station, payload.wind_speed AS mph FROM "weather/+/obs"
             WHERE is_num(payload.wind_speed) AND payload.wind_speed >= 15\"\"\"
  actions = [{{ function = republish, args {{ topic = "alerts/strong/${{station}}", payload = "${{mph}}", qos = 1 }} }}]
}}
pipeline {{ enable = {pipeline}, file = "{rules}", trigger = 1s }}
"""


def main() -> int:
    """Run until it is interrupted; the exit code."""
    parser = argparse.ArgumentParser(
        description="Weather stations publish, rules and a pipeline run, and a dashboard shows it, until Ctrl-C.",
        epilog="Example: python examples/weather/live.py --pace 1 --without-pipeline",
    )
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="where everything goes (demo-output)")
    parser.add_argument("--pace", type=float, default=0.2, metavar="S", help="seconds between two hours (0.2)")
    parser.add_argument("--without-pipeline", action="store_true", help="spare the memory that Spark takes")
    args = parser.parse_args()
    output = prepare_output(args.output)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    config = _CONFIG.format(pipeline=str(not args.without_pipeline).lower(), rules=_RULES)
    try:
        with Node(output, config) as node:
            _tell(node, output)
            _publish(node, args.pace, stop)
    except (ProcessError, RuntimeError) as error:
        print(f"\nthe demo failed: {error}", file=sys.stderr)
        return 1
    print("\neverything that was started has been stopped")
    return 0


def _tell(node: Node, output: Path) -> None:
    url = node.await_line(r"the HTTP API is served at (http://[^\s,]+)", _READY_S)[1]
    token = node.await_line(r"with the set-up token (\S+)", _READY_S)[1]
    print(f"dashboard     {url}/")
    print(f"set-up token  {token}   it asks for this once, and for a name and a password of your choice")
    print(f"MQTT          {node.host}:{node.port}")
    print(f"logs          {output / 'logs'}")
    print("Three stations publish; Ctrl-C ends everything.", flush=True)


def _publish(node: Node, pace_s: float, stop: threading.Event) -> None:
    """Hour after hour of the year, and then from its beginning, until it is to stop."""
    messages = to_messages(read_weather())
    stations = {name: Station(name, node.host, node.port) for name in sorted({one.station for one in messages})}
    subscriber = AlertSubscriber(node.host, node.port)
    hours = [list(hour) for _, hour in itertools.groupby(messages, _hour)]
    for hour in itertools.cycle(hours):
        if stop.wait(pace_s):
            break
        node.check()
        for observation in hour:
            stations[observation.station].publish(observation)
    for station in stations.values():
        station.finish()
    subscriber.close()


def _hour(observation: Observation) -> str:
    return str(json.loads(observation.payload)["time_hour"])


if __name__ == "__main__":
    sys.exit(main())
