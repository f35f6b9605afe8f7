"""An S3 server for tests: moto's, in a process of its own, on a free port, which can be told to fail, to hang or to be slow."""

import json
import random
import re
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode
from xml.sax.saxutils import unescape

SWITCH, SENT, ASKED = "/-switch", "/-sent", "/-asked"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class S3:
    """The server as tests see it."""

    def __init__(self, port: int) -> None:
        self.port = port

    def uri(self, path: str, scheme: str = "s3") -> str:
        """The URI of a folder, bucket first."""
        return f"{scheme}://{path}?endpoint_override=127.0.0.1:{self.port}&scheme=http&region=eu-central-1"

    def bucket(self, name: str) -> None:
        """Make a bucket."""
        self._ask("PUT", f"/{name}")

    def switch(
        self,
        fail: float = 0.0,
        status: int = 403,
        hang: bool = False,
        methods: str = "GET,HEAD,PUT,POST,DELETE",
        delay: float = 0.0,
        spare: int = 0,
        late: bool = False,
    ) -> None:
        """From now on refuse that share of the requests, or answer late, or none until the next switch.

        Args:
            fail: the share.
            status: of the refusals. For half a minute, clients try to get another answer than 503; 403 they take at once.
            hang: whether to answer none.
            methods: which requests are meant.
            delay: seconds before each answer; the next switch ends them.
            spare: how many requests are served first.
            late: whether lists leave out what is written from now on.
        """
        given = {"fail": fail, "status": status, "hang": int(hang), "methods": methods, "delay": delay}
        given |= {"spare": spare, "late": int(late)}
        self._ask("POST", f"{SWITCH}?{urlencode(given)}")

    def sent(self) -> int:
        """How many bytes were sent to be stored so far; those that the server copied are not among them."""
        return int(self._ask("GET", SENT))

    def asked(self) -> dict[str, int]:
        """How many requests have come so far, by their methods; of GET, those for lists of files are LIST."""
        found: dict[str, int] = json.loads(self._ask("GET", ASKED))
        return found

    def _ask(self, method: str, path: str) -> bytes:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            return bytes(answer.read())


@contextmanager
def running() -> Iterator[S3]:
    """A server that ends with the block, or with this process if that is killed."""
    child = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        yield S3(int(child.stdout.readline()))
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


class Unreliable:
    """Passes requests on to an application, but for those that the switch says."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._rng = random.Random(1)
        self._fail, self._status, self._methods = 0.0, 403, ""
        self._go_on = threading.Event()
        self._go_on.set()
        self._at_once, self._delay = threading.Event(), 0.0
        self._changing, self._spare, self._sent = threading.Lock(), 0, 0
        self._asked = Counter[str]()
        self._late, self._new = False, set[str]()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == SWITCH:
            given = {name: values[0] for name, values in parse_qs(environ["QUERY_STRING"]).items()}
            self._go_on.set()
            self._fail, self._status = float(given["fail"]), int(given["status"])
            self._methods, self._spare = given["methods"], int(given["spare"])
            self._late, self._new = given["late"] == "1", set()
            self._at_once.set()
            self._at_once, self._delay = threading.Event(), float(given["delay"])
            if given["hang"] == "1":
                self._go_on = threading.Event()
            start_response("200 OK", [])
            return []
        if environ["PATH_INFO"] == SENT:
            start_response("200 OK", [])
            return [str(self._sent).encode()]
        if environ["PATH_INFO"] == ASKED:
            start_response("200 OK", [])
            return [json.dumps(self._asked).encode()]
        lists = "list-type" in environ["QUERY_STRING"]
        with self._changing:
            self._asked["LIST" if lists else environ["REQUEST_METHOD"]] += 1
        if environ["REQUEST_METHOD"] in self._methods.split(",") and not self._is_spared():
            self._go_on.wait()
            self._at_once.wait(self._delay)
            if self._rng.random() < self._fail:
                start_response(f"{self._status} Refused", [("Content-Type", "application/xml")])
                code = "ServiceUnavailable" if self._status == 503 else "AccessDenied"
                return [f"<Error><Code>{code}</Code><Message>out of order</Message></Error>".encode()]
        if environ["REQUEST_METHOD"] == "PUT":
            with self._changing:
                self._sent += int(
                    environ.get("HTTP_X_AMZ_DECODED_CONTENT_LENGTH") or environ.get("CONTENT_LENGTH") or 0
                )
        if environ["REQUEST_METHOD"] in ("PUT", "POST"):
            self._new.add(environ["PATH_INFO"].partition("/")[2].partition("/")[2])
        if lists and self._late:
            return self._late_list(environ, start_response)
        return self._application(environ, start_response)

    def _late_list(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """A list without the files that are new."""
        heads = list[Any]()
        whole = b"".join(self._application(environ, lambda *head: heads.append(head))).decode()

        def kept(found: re.Match[str]) -> str:
            return "" if unescape(found[1]) in self._new else found[0]

        body = re.sub(
            "<Contents><Key>(.*?)</Key>.*?</Contents>", kept, re.sub(r">\s+<", "><", whole)
        ).encode()
        status, headers = heads[-1][:2]
        start_response(status, [*(one for one in headers if one[0].lower() != "content-length")])
        return [body]

    def _is_spared(self) -> bool:
        with self._changing:
            self._spare -= 1
            return self._spare >= 0


def serve() -> None:
    """Serve until standard input ends."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application = Unreliable(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)  # noqa: T201 - tells the port
    sys.stdin.read()


if __name__ == "__main__":
    serve()
