"""A provider of OpenID Connect on a loopback port: it signs real tokens, and checks what is asked of it."""

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT = "heliograph"
SECRET = "of:the/client"


class IdentityProvider:
    """The provider; an owner enters and leaves it.

    Attributes:
        claims: What it says of whoever logs in, beside what every ID token has; what a test puts here wins.
        key: What it signs with; its public half is at the address of the keys under the id `one`.
        algorithm: With which algorithm it signs.
        signing_key: Another key to sign with; None for `key`.
        asked: How often tokens were asked for.
    """

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {}
        self.key = rsa.generate_private_key(65537, 2048)
        self.key_id = "one"
        self.algorithm = "RS256"
        self.signing_key: Any = None
        self.asked = 0
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def metadata(self) -> dict[str, Any]:
        """What it says about itself."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }

    def keys(self) -> dict[str, Any]:
        """Its public keys."""
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**public, "kid": self.key_id, "use": "sig"}]}

    def authorize(self, query: dict[str, str]) -> str:
        """Where a browser goes whose user has just logged in."""
        assert (query["client_id"], query["response_type"]) == (CLIENT, "code")
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(8)
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def tokens(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """The answer to a code, which counts once and with its verifier."""
        self.asked += 1
        query = self._codes.pop(form["code"], None)
        user = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        is_right = (
            query is not None
            and query["code_challenge"] == challenge
            and query["redirect_uri"] == form["redirect_uri"]
            and user == f"{CLIENT}:of%3Athe%2Fclient"
        )
        if not is_right or query is None:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "0815",
            "aud": CLIENT,
            "iat": now,
            "exp": now + 60,
            "nonce": query["nonce"],
            **self.claims,
        }
        signed = jwt.encode(
            {name: value for name, value in claims.items() if value is not None},
            self.key if self.signing_key is None else self.signing_key,
            algorithm=self.algorithm,
            headers={"kid": self.key_id},
        )
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": signed}

    def _handler(provider) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler has a self of its own
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                if url.path == "/authorize":
                    self.send_response(302)
                    query = {name: values[0] for name, values in parse_qs(url.query).items()}
                    self.send_header("location", provider.authorize(query))
                    self.end_headers()
                    return
                known = {"/.well-known/openid-configuration": provider.metadata, "/keys": provider.keys}
                self.answer(200, known[url.path]())

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"])).decode()
                form = {name: values[0] for name, values in parse_qs(data).items()}
                self.answer(*provider.tokens(form, self.headers.get("authorization", "")))

            def answer(self, status: int, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Handler
