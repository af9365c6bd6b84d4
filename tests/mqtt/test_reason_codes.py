from heliograph.mqtt import reason_codes as rc
from support.cases import cases


def test_every_code_has_a_name() -> None:
    codes = {value for name, value in vars(rc).items() if name.isupper() and isinstance(value, int)}
    assert codes == set(rc.NAMES)
    assert len(set(rc.NAMES.values())) == len(rc.NAMES)


def test_names_for_logs() -> None:
    assert rc.name_of(0x87) == "not_authorized"
    assert rc.name_of(0x42) == "reason_0x42"


# Table 3.1 of MQTT 3.1.1.
@cases(("code", "return_code"), [(0x00, 0), (0x84, 1), (0x85, 2), (0x88, 3), (0x86, 4), (0x87, 5)])
def test_connack_codes_of_mqtt_3_and_back(code: int, return_code: int) -> None:
    assert rc.connack_return_code(code) == return_code
    assert rc.connack_reason_code(return_code) == code


def test_connack_codes_without_an_equal() -> None:
    assert rc.connack_return_code(rc.BANNED) == 5
    assert rc.connack_return_code(rc.QUOTA_EXCEEDED) == 3
    assert rc.connack_reason_code(6) == rc.UNSPECIFIED_ERROR
