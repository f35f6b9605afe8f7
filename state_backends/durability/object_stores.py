"""The client of a URI's file system, and how patient the one of S3 is.

Arrow's client for S3 URIs waits three seconds for an answer, and sends a request 31 times, a fifth of a second apart. A store
that answers after four seconds never answers in time: each request fails after 100 seconds. One that is overloaded gets five
requests a second from each thread. The client here waits longer for an answer, and longer after each refusal.
"""

from typing import Any
from urllib.parse import unquote

from pyarrow import fs

ANSWER_S = 15.0
"""How long S3 may send nothing until the request is sent again."""
TRIES = 8
"""How often a request is sent that S3 does not answer, or answers by an error that may pass: with 503, half a minute in all."""
_FLAGS = ("allow_bucket_creation", "allow_bucket_deletion")
_KNOWN = {"region", "scheme", "endpoint_override", *_FLAGS}
"""What the client of S3 can be given by Python as well as by a URI. A URI with more has Arrow's own patience."""


def file_system(uri: str, *, has_secret: bool = False) -> tuple[Any, str]:
    """Return the file system of a URI, and the path in it.

    Args:
        uri: with one of Arrow's schemes, and encoded.
        has_secret: whether credentials may be in the URI. Then the client is Arrow's own.

    Raises:
        OSError, ValueError, ArrowException: Arrow refuses the URI.
    """
    system, path = fs.FileSystem.from_uri(uri)
    settings = dict(part.partition("=")[::2] for part in uri.partition("?")[2].split("&") if part)
    if has_secret or system.type_name != "s3" or not settings.keys() <= _KNOWN:
        return system, path
    texts = {name: unquote(value) for name, value in settings.items()}
    given: dict[str, Any] = {
        "region": system.region,
        "scheme": texts.get("scheme", "https"),
        "endpoint_override": texts.get("endpoint_override"),
        "request_timeout": ANSWER_S,
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=TRIES),
        **{name: texts.get(name, "").lower() in ("1", "true") for name in _FLAGS},
    }
    try:
        # With delayed opening, a small file is one request and not three.
        return fs.S3FileSystem(**given, allow_delayed_open=True), path
    except TypeError:  # PyArrow 18
        return fs.S3FileSystem(**given), path
