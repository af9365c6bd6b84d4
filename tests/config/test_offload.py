"""Offload needs to know where to."""

from config.writing import Write, config_of, mistakes_in


def test_offload_without_a_target_is_told(write: Write) -> None:
    text = "durable_storage.messages.offload.enable = true\ndurable_storage.databases.x.offload { enable = true }"
    assert [mistake.split(": ", 2)[1] for mistake in mistakes_in(write(text))] == [
        "durable_storage.messages.offload.target",
        "durable_storage.databases.x.offload.target",
    ]
    text = 'durable_storage.messages.offload { enable = true, target = "s3://bucket/path", after = 2d }'
    offload = config_of(write(text)).durable_storage.messages.offload
    assert (offload.enable, offload.target, offload.after) == (True, "s3://bucket/path", 2 * 86_400.0)


def test_the_options_of_a_store_are_checked_by_name(write: Write) -> None:
    offload = 'enable = true, target = "s3://lake/msgs"'
    text = f"durable_storage.messages.offload {{ {offload}, storage_options {{ endpoint = x }} }}"
    (mistake,) = mistakes_in(write(text))
    assert "offload.storage_options" in mistake
    assert "has the option 'endpoint', but s3 takes endpoint_override, scheme, region" in mistake
    text = f"durable_storage.messages.offload {{ {offload}, storage_options {{ secret_key = x }} }}"
    assert "credentials come from the environment" in mistakes_in(write(text))[0]
    text = 'durable_storage.messages.offload { enable = true, target = "s3://lake/msgs?bucket=x" }'
    assert "offload.target" in mistakes_in(write(text))[0]
    text = 'durable_storage.messages.offload { enable = true, target = "ftp://lake/msgs" }'
    assert "its scheme must be one of s3" in mistakes_in(write(text))[0]
    text = "durable_storage.messages.offload { enable = true, target = cold, storage_options { scheme = http } }"
    assert "target is a directory" in mistakes_in(write(text))[0]
    options = 'storage_options { endpoint_override = "127.0.0.1:9000", scheme = http, region = eu }'
    text = f"durable_storage.messages.offload {{ {offload}, {options} }}"
    found = config_of(write(text)).durable_storage.messages.offload.place
    assert found == "s3://lake/msgs?endpoint_override=127.0.0.1:9000&scheme=http&region=eu"
