"""What clients acknowledge, and how that is answered: PUBACK, PUBREC, PUBREL and PUBCOMP."""

from mypy_extensions import i64

from heliograph.broker.counters import Counters
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import UINT16, encode_ack
from heliograph.mqtt.errors import ProtocolError
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session


def take_receipt(session: Session, outbox: Outbox, kind: i64, packet_id: int, code: int, version: i64) -> None:
    """Act on an acknowledgement of the type `kind`.

    One that answers nothing known is answered as the specification says, and counted: after a connection was lost the
    two sides may remember different things.

    Raises:
        ProtocolError: A message waits for another acknowledgement under that identifier.
    """
    counters = session.broker.counters
    if kind == p.PUBACK:
        counters.puback_received += 1
        known = session.on_puback(packet_id)
        if not known:
            if packet_id in session.sender.window.deliveries:
                counters.puback_inuse += 1
                raise _wrong_kind(kind, packet_id)
            counters.puback_missed += 1
    elif kind == p.PUBREC:
        counters.pubrec_received += 1
        known = session.on_pubrec(packet_id, code >= rc.UNSPECIFIED_ERROR)
        if not known:
            if packet_id in session.sender.window.deliveries:
                counters.pubrec_inuse += 1
                raise _wrong_kind(kind, packet_id)
            counters.pubrec_missed += 1
            _answer(outbox, counters, p.PUBREL, packet_id, rc.PACKET_IDENTIFIER_NOT_FOUND, version)
        elif code < rc.UNSPECIFIED_ERROR:
            # [MQTT-4.3.3-4] 3.1.1 [MQTT-4.3.3-1] 3.1.1 [MQTT-4.6.0-4]
            _answer(outbox, counters, p.PUBREL, packet_id, rc.SUCCESS, version)
    elif kind == p.PUBREL:
        counters.pubrel_received += 1
        known = session.awaiting_rel.release(packet_id)  # [MQTT-4.3.3-12] 3.1.1 [MQTT-4.3.3-2]
        if session.broker.tracer is not None:
            session.broker.tracer.on_released(session.clientid, packet_id)
        code = rc.SUCCESS
        if not known:
            counters.pubrel_missed += 1
            code = rc.PACKET_IDENTIFIER_NOT_FOUND
        _answer(outbox, counters, p.PUBCOMP, packet_id, code, version)  # [MQTT-4.3.3-11]
    else:
        counters.pubcomp_received += 1
        if not session.on_pubcomp(packet_id):
            if packet_id in session.sender.window.deliveries:
                counters.pubcomp_inuse += 1
                raise _wrong_kind(kind, packet_id)
            counters.pubcomp_missed += 1


# [MQTT-4.13.1-1] 3.1.1 [MQTT-4.8.0-1]
def _wrong_kind(kind: i64, packet_id: int) -> ProtocolError:
    return ProtocolError(
        f"{p.NAMES[kind]} for the packet identifier {packet_id}, whose message waits for another packet"
    )


# Under the identifier of what it answers: 3.1.1 [MQTT-2.3.1-6]
def _answer(outbox: Outbox, counters: Counters, kind: i64, packet_id: int, code: int, version: i64) -> None:
    if kind == p.PUBREL:
        counters.pubrel_sent += 1
    else:
        counters.pubcomp_sent += 1
    if code == rc.SUCCESS:
        outbox.put_pair(UINT16[0x6202 if kind == p.PUBREL else 0x7002], UINT16[packet_id])
    else:
        outbox.put(encode_ack(kind, packet_id, code, version))
