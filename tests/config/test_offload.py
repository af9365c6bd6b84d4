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
