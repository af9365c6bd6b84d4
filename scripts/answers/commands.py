"""Runs every command of `heliograph ctl`: its help, what there is and what there is not, tables and JSON."""

from typing import Any, Final

from scripts.answers.reads import MISSING
from scripts.answers.recorded_node import RecordedNode
from scripts.answers.recorder import Recorder
from scripts.answers.scene import PASSWORD

_AUTHN: Final = "password_based:built_in_database"
_HTTP: Final = (
    '{mechanism = password_based, backend = http, method = post, url = "http://127.0.0.1:9/a", enable = false, '
    'body {p = "${password}"}, headers {authorization = "hidden-20"}}'
)
_JWT: Final = '{mechanism = jwt, secret = "hidden-21", algorithm = hmac-based}'
_REDIS: Final = (
    '{type = redis, server = "127.0.0.1:9", password = "hidden-22", cmd = "HGETALL a:${username}", enable = false}'
)
#: What only reads: each runs for people and with `--json`.
READS: Final = f"""
status
broker
broker info
broker stats
broker metrics
broker metrics --nonzero
broker nothing
clients list
clients list --limit 2 --sort subscriptions_cnt
clients list --clientid-like meter --connected --columns clientid,username,proto_ver
clients list --away
clients list --username ann --min-queue 1
clients list --username-like an --ip 127.0.0.1 --listener tcp:default --zone default
clients list --min-dropped 1
clients list --sort nothing
clients list --columns nothing
clients list --columns clientid,port,ip_address,keepalive,clean_start,expiry_interval,mqueue_len,inflight_cnt
clients show meter-1
clients show away
clients show {MISSING}
clients
nothing
subscriptions list
subscriptions list --clientid meter-1
subscriptions list --topic out/#
subscriptions list --matches out/1 --limit 1 --sort topic
subscriptions list --columns topic,qos
subscriptions show meter-1
subscriptions show {MISSING}
topics list
topics list --limit 1 --sort topic
topics show out/#
topics show {MISSING}
exclusive list
authn list
authn show {_AUTHN}
authn show password_based:redis
authn show jwt
authn show {MISSING}
authn show {_AUTHN} --listener tcp:default
authn status {_AUTHN}
authn status jwt
authn status {MISSING}
banned list
banned list --limit 1
banned list --as clientid
banned list --by ann
banned list --as nothing
banned show clientid meter-99
banned show clientid {MISSING}
logins list
acl list
acl list clientid
acl list username --like an --limit 1
acl list all
acl show username ann
acl show clientid {MISSING}
acl show all
acl export
authz explain meter-1 publish no/1 --qos 1
authz explain meter-1 subscribe kept/#
authz explain {MISSING} publish a --described --username ann --peerhost 10.0.0.1 --zone default --superuser
authz explain {MISSING} publish a
authz explain meter-1 publish a/#
authz sources
authz status
users list
users list --like an --limit 1
users list --superuser
users list --no-superuser --after ann
users list --mechanism scram
users show ann
users show {MISSING}
admins list
api_keys list
conf show
conf show --origins
conf show mqtt
conf show mqtt.max_packet_size --origins
conf show authentication
conf show authorization
conf show {MISSING}
conf show_keys
conf revisions
conf show-revision 1
conf show-revision 1000000
conf diff 1 2
conf diff 1 1000000
conf plan mqtt.max_inflight=9
conf plan mqtt.max_inflight=many
conf plan mqtt.nothing=1
conf plan
listeners list
retainer info
retainer topics
retainer topics state/# --limit 2
retainer topics a/#/b
retainer show state/1
retainer show {MISSING}
retainer clean state/# --dry-run
retainer reindex status
delayed info
delayed list
delayed list --limit 1
delayed show {MISSING}
rules list
rules show copy
rules show tells
rules show {MISSING}
alarms list
alarms list --history
log primary-level
pipeline status
pipeline dlq ls
pipeline dlq show {MISSING}
ds info
ds info --database messages
ds info --database {MISSING}
vm
vm all
vm load
vm memory
vm io
vm loop
olp status
message explain
message explain --topic ways/#
message explain --client tower --since 1h --limit 1
message explain {"0" * 32}
message explain nothing
trace list
trace show {MISSING}
data import {MISSING}.tar.gz
"""
#: What changes, in this order; a line of two parts has standard input after `<<`.
CHANGES: Final = f"""
subscriptions add meter-1 more/# 1 --nl --rap --rh 2
subscriptions add meter-1 a/#/b 1
subscriptions add {MISSING} a 0
subscriptions del meter-1 more/#
subscriptions del meter-1 more/#
subscriptions del {MISSING} a
exclusive delete one/door
exclusive delete one/door
clients kick meter-5
clients kick {MISSING}
authn add - << {_HTTP}
authn add - << {_HTTP}
authn add {{mechanism=magic}}
authn show password_based:http
authn update password_based:http - << {_HTTP.replace("hidden-20", "hidden-23")}
authn update {MISSING} - << {_HTTP}
authn update password_based:http {{mechanism=jwt}}
authn move password_based:http front
authn move password_based:http between
authn move {MISSING} front
authn order jwt
authn order jwt password_based:http password_based:redis {_AUTHN}
authn disable jwt
authn enable jwt
authn enable {MISSING}
authn add - --listener tcp:default << {_JWT}
authn list
authn delete jwt --listener tcp:default
authn delete password_based:http
authn delete password_based:http
banned add clientid new --reason tests --by ctl --until 2035-01-01T00:00:00Z
banned add clientid new
banned add clientid x --for soon
banned add peerhost x
banned add clientid later --for 1h
banned show clientid new
banned delete clientid new
banned delete clientid new
banned clear --as username_re
banned clear
logins lift 10.0.0.1
logins lift nothing
acl add username ann {{"permission":"deny","action":"publish","topic":"x"}}
acl add --front username ann {{"permission":"allow","action":"all","topic":"y"}}
acl add username ann {{"permission":"perhaps"}}
acl set clientid new {{"permission":"allow","action":"subscribe","topic":"z"}}
acl show username ann
acl delete username ann --rule 1
acl delete username ann --rule 9
acl delete clientid new
acl delete clientid new
acl clear username
acl import - --format json << []
acl import - << nothing
acl clear
authz add - << {_REDIS}
authz add - << {_REDIS}
authz add {{type=magic}}
authz update - << {_REDIS.replace("hidden-22", "hidden-24")}
authz update {{type=mysql}}
authz sources
authz move redis rear
authz move redis between
authz move {MISSING} front
authz order redis
authz order redis file http built_in_database
authz enable redis
authz disable redis
authz disable {MISSING}
authz delete redis
authz delete redis
authz cache-clean
authz cache-clean meter-1
authz cache-clean {MISSING}
authz recheck meter-1
authz recheck {MISSING}
users add new --password-stdin << secret-of-new-1
users add new --password-stdin << secret-of-new-1
users set new --superuser
users set new --no-superuser --password-stdin << other-secret-1
users set {MISSING} --superuser
users show new
users delete new
users delete new
users import {MISSING}.csv
users export <dir>/users.csv
users export <dir>/users.csv
users import <dir>/users.csv --type hash
admins add new {PASSWORD} About --role operator
admins add new {PASSWORD}
admins add weak weak
admins passwd new An0ther-one
admins passwd unknown {PASSWORD}
admins set new --role viewer --description Newer --no-second-factor
admins set unknown --role viewer
admins list
admins del new
admins del new
api_keys add new --description New --role publisher --for 1h
api_keys add new
api_keys add 1st
api_keys set new --disable --role viewer
api_keys set new --enable --for 2h --description Newer
api_keys set {MISSING} --enable
api_keys list
api_keys del new
api_keys del new
conf set mqtt.max_inflight=17 --comment why
conf set mqtt.max_inflight=many
conf set mqtt.nothing=1
conf set mqtt.exclusive_subscription=false
conf set mqtt.exclusive_subscription=false --force
conf set mqtt.max_inflight=18 --revision 1
conf set mqtt.max_inflight=19 --confirm 600
conf set mqtt.max_inflight=20
conf confirm
conf confirm
conf set authentication.1.password=hidden-25
conf set mqtt.max_inflight=null
conf load - << mqtt {{ max_inflight = 21 }}
conf load - --replace << mqtt {{ max_inflight = 22 }}
conf load - << mqtt {{
conf load {MISSING}.conf
conf plan --load - << mqtt {{ max_inflight = 23 }}
conf plan --load - --replace << log.console.level = info
conf show mqtt.max_inflight --origins
conf revisions
conf reload
conf rollback 1
conf rollback 1000000
conf diff 1 2
listeners stop tcp:default
listeners list
listeners start tcp:default
listeners restart tcp:default
listeners start tcp:{MISSING}
listeners enable ws:page true
listeners enable ws:page false
listeners enable ws:{MISSING} true
listeners enable ws:page maybe
certs reload
pem_cache clean
pem_cache clean all
retainer clean state/1
retainer clean state/#
retainer clean a/#/b
retainer reindex start
retainer clean
delayed delete {MISSING}
alarms deactivate {MISSING}
alarms clear
log set-level info
log set-level debug --save
log primary-level warning
log set-level loud
olp disable
olp status
olp enable
data export --root-keys nothing
data export --root-keys mqtt --table-sets banned --dir <dir>
data export --table-sets nothing
trace start new client meter-1 --duration 10m --payload hex --max-size 1MB
trace start new client meter-1
trace start no topic a/#/b
trace list
trace show new
trace stop new
trace stop new
trace delete new
trace delete new
"""


def command_all(recorder: Recorder, node: RecordedNode, document: dict[str, Any]) -> None:
    """Run all of them."""
    for words in _helps(node, []):
        recorder.command(node, [*words, "--help"], f"commands/help/{'_'.join(words) or 'ctl'}")
    where = ["--data-dir", str(node.data_dir)]
    recorder.command(node, ["--data-dir", f"{node.data_dir}/nothing", "status"], "commands/unreachable")
    for line in READS.strip().splitlines():
        for more in ([], ["--json"]):
            words = line.split()
            group = words[0].partition("--")[0]
            recorder.command(node, [*where, *more, *words], f"commands/reads/{group}/{_name([*words, *more])}")
    _of_this_run(recorder, node, where)
    for number, line in enumerate(CHANGES.strip().splitlines()):
        text, _, stdin = line.partition(" << ")
        words = [word.replace("<dir>", str(node.directory)) for word in text.split()]
        name = f"commands/changes/{words[0]}/{number:03}_{_name(text.split())}"
        more = ["--json"] if number % 2 else []
        recorder.command(node, [*where, *more, *words], name, stdin)


def _name(words: list[str]) -> str:
    return "_".join(words).replace("/", "~")[:120]


def _of_this_run(recorder: Recorder, node: RecordedNode, where: list[str]) -> None:
    """What needs the id of a message of this run."""
    ways = node.api.get("/heliograph/message_ways", params={"topic": "#"}).json()["data"]
    delayed = node.api.get("/mqtt/delayed/messages").json()["data"]
    for number, row in enumerate(ways):
        recorder.normal.word(row["id"], f"<way-{number}>")
        for more in ([], ["--json"]):
            words = ["message", "explain", row["id"]]
            recorder.command(node, [*where, *more, *words], f"commands/reads/message/way-{number}{'_'.join(more)}")
    for number, row in enumerate(delayed):
        recorder.normal.word(row["msgid"], f"<delayed-{number}>")
        for act, more in (("show", []), ("show", ["--json"]), ("delete", []), ("delete", ["--json"])):
            name = f"commands/reads/delayed/{act}-{number}{'_'.join(more)}"
            recorder.command(node, [*where, *more, "delayed", act, row["msgid"]], name)


def _helps(node: RecordedNode, words: list[str]) -> list[list[str]]:
    """All commands, found in what help lists."""
    found = [words]
    for line in node.command(["ctl", *words, "--help"]).out.partition("\n  COMMAND\n")[2].splitlines():
        if line.startswith("    ") and line[4:5].strip():
            found += _helps(node, [*words, line.split()[0]])
    return found


def commands_of(node: RecordedNode) -> list[str]:
    """The commands that do something, as `clients list`."""
    every = [" ".join(words) for words in _helps(node, [])]
    return [one for one in every if one and not any(other.startswith(f"{one} ") for other in every)]


def uncovered(node: RecordedNode, recorder: Recorder) -> list[str]:
    """Commands that never succeeded in a recording."""
    asked = {call: codes for call, codes in recorder.statuses.items() if call.startswith("ctl ")}
    return [
        command
        for command in commands_of(node)
        if not any(f" {command}" in call and "--help" not in call and 0 in codes for call, codes in asked.items())
    ]
