"""What the configuration of a node says about the callers of the reader, whose process loads no configuration."""

from pathlib import Path

from heliograph.config.storage import TOKEN_LENGTH_MIN, FlightConfig, FlightTlsConfig, FlightTokenConfig
from heliograph.settings.secrets import SecretError
from heliograph.storage.reader.local_token import read_or_make_token
from heliograph.storage.reader.security import ReaderSecurity, ReaderSettingsError, ReaderToken, digest_of, unusable


def reader_security(config: FlightConfig, data_dir: Path | None = None) -> ReaderSecurity:
    """What the reader is to know about its callers; files of tokens are read.

    Args:
        data_dir: The node's data directory, where its own token lies; made there if no others are described and
            `require_token` is not off.
        ReaderSettingsError: One cannot be used.
    """
    tokens = tuple(
        ReaderToken(token.name, _digest_of(token, number), token.topics, token.databases, token.user)
        for number, token in enumerate(config.tokens, 1)
    )
    tls = config.tls if config.tls.enable else FlightTlsConfig()
    open_to_all = {"true": False, "false": True}.get(config.require_token)
    authorities = tls.cacertfile if tls.verify else ""
    local_digest = ""
    if data_dir is not None and not tokens and open_to_all is None:
        try:
            local_digest = digest_of(read_or_make_token(data_dir))
        except (OSError, UnicodeDecodeError) as error:
            raise ReaderSettingsError(f"the node's own token: {error}", database="") from None
    return ReaderSecurity(tokens, open_to_all, tls.certfile, tls.keyfile, authorities, local_digest)


def _digest_of(token: FlightTokenConfig, number: int) -> str:
    if token.sha256:
        return token.sha256.lower()
    setting, file = f"tokens.{number}.token", str(token.token.file)
    try:
        text = token.token.reveal()
    except SecretError as error:
        raise unusable(setting, file, str(error)) from None
    if not text.isascii():
        raise unusable(setting, file, "a token is made of ASCII characters")
    if len(text) < TOKEN_LENGTH_MIN:
        raise unusable(setting, file, f"it holds {len(text)} characters, and a token has {TOKEN_LENGTH_MIN} at least")
    return digest_of(text)
