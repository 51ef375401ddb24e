"""The approval page: what waits for a decision with its evidence, two buttons, and the history.

    python -m demur.envs.intent serve --registry sqlite:///intents.db --as ann

The first visit exchanges the token for a cookie. A decision is a POST that brings the cookie, the form's own token
and this server's name in `Host` and `Origin`, so that no other page can make one. Texts of agents are escaped by the
template and stand in no script. Plain HTTP: reach it from elsewhere through a tunnel.
"""

from __future__ import annotations

import argparse
import hmac
import logging
import secrets
from functools import cached_property
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from socketserver import TCPServer
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qs

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.approvals import ApprovalError
from demur.envs.intent.registry.cases import (
    Decision,
    approver_name,
    decide,
    decided,
    outcome,
    pending_cases,
    spelled,
    visible,
)
from demur.envs.intent.registry.database import RegistryUnavailable

HOST: Final = "127.0.0.1"
PORT: Final = 8340
MOST_BYTES: Final = 32_768
"""The longest form that is read."""
_HERE: Final = Path(__file__).parent
_FILES: Final = {"/style.css": "text/css", "/script.js": "text/javascript"}
_HTML: Final = "text/html"

# same-origin and not no-referrer, with which a form's POST would come from the origin "null"
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_log = logging.getLogger(__name__)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as", dest="approver", metavar="NAME", help="who decides; the login name unless given")
    parser.add_argument("--host", default=HOST, help=f"the address to listen on; {HOST} unless given")
    parser.add_argument("--port", type=int, default=PORT, help=f"{PORT} unless given; 0 takes a free one")


def run(registry: Registry, options: argparse.Namespace) -> int:
    """Print the address to open and serve until Ctrl-C. Raises ValueError for bad input."""
    approver = approver_name(options.approver)
    with ApprovalServer(registry, approver, host=options.host, port=options.port) as server:
        print(f"Open {server.url} to approve as {approver}; Ctrl-C ends.", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


class Draft(NamedTuple):
    """A decision that was not taken, so that it need not be written again."""

    approval_id: str
    decision: str
    reason: str


class ApprovalServer(ThreadingHTTPServer):
    """Serves one approver, whose name each decision bears. url: the address to open first; keep it secret.

    Raises ValueError if it cannot listen there.
    """

    daemon_threads = True

    def __init__(self, registry: Registry, approver: str, *, host: str = HOST, port: int = PORT) -> None:
        self.registry = registry
        self.approver = approver
        self.access = secrets.token_urlsafe(32)
        self.form_token = secrets.token_urlsafe(32)
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise ValueError(f"cannot listen on {host!r}, port {port} ({error}); name others") from error
        self.names = {f"{host}:{self.server_port}".lower()}
        if host == HOST:
            self.names.add(f"localhost:{self.server_port}")
        self.address = f"http://{host}:{self.server_port}"

    def server_bind(self) -> None:
        # the parent class also looks its own name up, which may ask a name server
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]
        if ip_address(self.server_name).is_unspecified:
            raise ValueError("listen on one address, not on all: the page checks by which name it is asked for")

    @property
    def url(self) -> str:
        return f"{self.address}/?token={self.access}"

    @property
    def cookie(self) -> str:
        """Its name has the port, since a browser sends the cookies of a host to all of its ports."""
        return f"demur_approvals_{self.server_port}"

    def page(self, message: str = "", draft: Draft | None = None) -> tuple[str, bool]:
        """The page, and whether the registry could be read for it."""
        reachable = True
        try:
            cases = pending_cases(self.registry)
            history = decided(self.registry)
        except RegistryUnavailable as error:
            cases, history, reachable = [], [], False
            message = message or f"{error}. Nothing was lost; the page tries again."
        text = self._template.render(
            approver=self.approver,
            cases=cases,
            history=[(one, visible(one.tool), spelled(one.arguments), outcome(one)) for one in history],
            message=visible(message),
            draft=draft,
            waits=draft is not None and any(case.approval.approval_id == draft.approval_id for case in cases),
            reachable=reachable,
            form_token=self.form_token,
        )
        return text, reachable

    def sorry(self, message: str) -> str:
        """A page of one sentence, for who may not see the other."""
        return self._environment.get_template("sorry.html").render(message=visible(message))

    @cached_property
    def _environment(self) -> Environment:
        loader = FileSystemLoader(_HERE / "templates")
        return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)

    @cached_property
    def _template(self) -> Any:
        return self._environment.get_template("page.html")


class _Refused(Exception):
    """A request that gets one sentence and nothing else."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: ApprovalServer
    timeout = 30  # seconds that a request may take to arrive
    server_version = "demur"
    sys_version = ""

    def do_GET(self) -> None:
        self._guarded(self._get)

    def do_POST(self) -> None:
        self._guarded(self._post)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged of a request: its line may hold the token."""

    def _guarded(self, answer: Any) -> None:
        try:
            if self.headers.get("Host", "").lower() not in self.server.names:
                raise _Refused(HTTPStatus.FORBIDDEN, "This server is not known by that name; open the printed address.")
            answer()
        except _Refused as refused:
            self._send(refused.status, self.server.sorry(str(refused)))
        except (ConnectionError, TimeoutError):
            self.close_connection = True  # who asked has gone
        except Exception:
            _log.exception("the approval page failed")
            message = (
                "The page failed, and the decision may not have been taken; what went wrong is in the server's log."
            )
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, self.server.sorry(message))

    def _get(self) -> None:
        path, _, query = self.path.partition("?")
        if path in _FILES:
            self._send(HTTPStatus.OK, (_HERE / path[1:]).read_text(encoding="utf-8"), kind=_FILES[path])
        elif path != "/":
            raise _Refused(HTTPStatus.NOT_FOUND, "There is no such page here.")
        elif token := parse_qs(query).get("token"):
            if not _same(token[0], self.server.access):
                raise _Refused(HTTPStatus.FORBIDDEN, "That token is not of this server; open the address it printed.")
            cookie = f"{self.server.cookie}={self.server.access}; HttpOnly; SameSite=Strict; Path=/"
            self._redirect({"Set-Cookie": cookie})
        else:
            self._check_cookie()
            page, reachable = self.server.page()
            self._send(HTTPStatus.OK if reachable else HTTPStatus.SERVICE_UNAVAILABLE, page)

    def _post(self) -> None:
        if self.path != "/decide":
            raise _Refused(HTTPStatus.NOT_FOUND, "There is nothing to decide at this address.")
        self._check_cookie()
        origin = self.headers.get("Origin")
        if origin is not None and origin.removeprefix("http://").lower() not in self.server.names:
            raise _Refused(HTTPStatus.FORBIDDEN, "The form is not of this page.")
        form = self._form()
        if not _same(form.get("form_token", ""), self.server.form_token):
            raise _Refused(HTTPStatus.FORBIDDEN, "The form is not of this server's page; load the page anew.")
        reason = form.get("reason", "").replace("\r\n", "\n")  # forms end lines so
        draft = Draft(form.get("approval_id", ""), form.get("decision", ""), reason)
        try:
            decision = cast(Decision, draft.decision)  # the registry refuses others
            decide(self.server.registry, draft.approval_id, decision, self.server.approver, draft.reason)
        except ApprovalError as error:
            self._send(HTTPStatus.CONFLICT, self.server.page(_sentence(error), draft)[0])
        except RegistryUnavailable as error:
            message = f"{_sentence(error)} Send it again once it can; a decision that was taken stands."
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, self.server.page(message, draft)[0])
        else:
            self._redirect({})

    def _check_cookie(self) -> None:
        for part in self.headers.get("Cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.server.cookie and _same(value, self.server.access):
                return
        raise _Refused(HTTPStatus.FORBIDDEN, "Open the address that was printed when the server started.")

    def _form(self) -> dict[str, str]:
        """The fields of the form. They are read only if they are short and said to be a form."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "A decision has to say how long it is.")
        if len(length) > 9 or int(length) > MOST_BYTES:
            message = f"That is too long: a reason and the rest may take {MOST_BYTES} bytes. Nothing was decided."
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        if self.headers.get_content_type() != "application/x-www-form-urlencoded":
            raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "A decision is sent as a form.")
        body = self.rfile.read(int(length))
        try:
            fields = parse_qs(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=8)
        except ValueError as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, "The form cannot be read. Nothing was decided.") from error
        return {name: values[-1] for name, values in fields.items()}

    def _redirect(self, headers: dict[str, str]) -> None:
        self._send(HTTPStatus.SEE_OTHER, "", headers={"Location": "/", **headers})

    def _send(self, status: HTTPStatus, text: str, *, kind: str = _HTML, headers: dict[str, str] | None = None) -> None:
        body = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        for name, value in {**_HEADERS, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."
