"""Other options for the connections and sessions that are there: each gets them in one of the next turns.

Records of options never change, and the one of each connection is replaced: what handles packets pays nothing for this.
"""

from dataclasses import replace

from heliograph.channel.options import ChannelOptions
from heliograph.session.options import SessionOptions


class OptionChanges:
    """What connections and sessions have from now on in place of what they had.

    Args:
        of_zones: What each zone says; that of `default` counts for zones that no longer exist.
    """

    def __init__(self, of_zones: dict[str, ChannelOptions]) -> None:
        self._of_zones = of_zones
        # Made once for all connections that had the same record, which is kept so that its identity stays its own.
        self._made: dict[tuple[int, bool], tuple[ChannelOptions, ChannelOptions]] = {}

    def for_connection(self, before: ChannelOptions, has_limits: bool) -> ChannelOptions:
        """What a connection has from now on; what its listener says of it stays.

        Args:
            has_limits: Its client has got limits in a CONNACK, or is about to be: these stay too, since a client of
                MQTT 5 relies on them.
        """
        key = (id(before), has_limits)
        made = self._made.get(key)
        if made is None:
            made = before, self._make(before, has_limits)
            self._made[key] = made
        return made[1]

    def for_session(self, before: SessionOptions) -> SessionOptions:
        return self._of_zone(before.zone).session

    def _of_zone(self, zone: str) -> ChannelOptions:
        found = self._of_zones.get(zone)
        return self._of_zones["default"] if found is None else found

    def _make(self, before: ChannelOptions, has_limits: bool) -> ChannelOptions:
        of_zone = self._of_zone(before.zone)
        made = replace(of_zone, listener=before.listener, zone=before.zone)
        if not has_limits:
            return made
        session = of_zone.session
        if session.max_awaiting_rel != before.session.max_awaiting_rel:
            session = replace(session, max_awaiting_rel=before.session.max_awaiting_rel)
        return replace(
            made,
            session=session,
            max_packet_size=before.max_packet_size,
            max_qos_allowed=before.max_qos_allowed,
            max_topic_alias=before.max_topic_alias,
            retain_available=before.retain_available,
            server_keepalive_s=before.server_keepalive_s,
        )
