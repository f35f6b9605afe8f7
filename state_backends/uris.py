"""URIs of folders and tables: what in them may be a secret, and how messages show them."""

import re
from urllib.parse import unquote

SCHEMES = {name: name for name in ("s3", "gs", "hdfs", "viewfs", "abfs", "abfss")}
SCHEMES |= {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
"""Arrow's name of each scheme of a folder."""
_HADOOP = ("hdfs", "viewfs")
_WITH_USER = (*_HADOOP, "abfs", "abfss")
"""Schemes with a user or a container before the @."""
_S3 = (
    "region",
    "scheme",
    "endpoint_override",
    "allow_bucket_creation",
    "allow_bucket_deletion",
    "allow_delayed_open",
    "smart_defaults",
    "tls_ca_file_path",
    "tls_ca_dir_path",
    "tls_verify_certificates",
)
_GS = ("scheme", "endpoint_override", "retry_limit_seconds", "project_id")
_ABFS = (
    "blob_storage_authority",
    "dfs_storage_authority",
    "enable_tls",
    "credential_kind",
    "client_id",
    "background_writes",
)
_HDFS = ("user", "replication", "buffer_size", "default_block_size", "kerb_ticket")
SETTINGS = {"s3": _S3, "gs": _GS, "abfs": _ABFS, "abfss": _ABFS, "hdfs": _HDFS, "viewfs": _HDFS}
"""Names in the query of a folder's URI, by scheme: Arrow's, without those of secrets."""
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:%]*)(?::\d+)?")
_SCHEME = re.compile(r"[A-Za-z0-9.+-]*")


def may_have_password(rest: str, user: bool, hadoop: bool) -> bool:
    """Return whether what follows :// may begin with a user that is not accepted, or a password.

    Half of all keys have a slash, and a key with one ends what looks like the host; % hides a colon or an @.

    Args:
        rest: what follows ://.
        user: whether a user or container without a password is accepted.
        hadoop: whether a path may have an @ after a host with a port; of object stores, it could be the end of a key.
    """
    before, at, host = re.split("[/?#]", rest, maxsplit=1)[0].rpartition("@")
    if not _HOST.fullmatch(host) or (at and (not user or ":" in unquote(before))):
        return True
    return not hadoop and ":" in unquote(rest[len(before + at) :]).rpartition("@")[0]


def has_password(uri: str) -> bool:
    """Return whether the URI of a folder may have a password, or a user where there are none."""
    scheme, _, rest = uri.partition("://")
    kind = SCHEMES.get(scheme, "")
    # A client of Google's without credentials.
    user = kind in _WITH_USER or (kind == "gs" and rest.startswith("anonymous@"))
    return not _SCHEME.fullmatch(scheme) or may_have_password(rest, user, kind in _HADOOP)


def has_unknown_settings(uri: str) -> bool:
    """Return whether the query of a folder's URI has more than settings that are known and no secrets."""
    scheme, _, rest = uri.partition("://")
    for part in filter(None, rest.partition("?")[2].split("&")):
        name, _, value = map(unquote, part.partition("="))
        # A user of Kerberos has an @ before its realm; elsewhere, a user would be before it.
        if name not in SETTINGS[SCHEMES[scheme]] or (":" if name == "user" else "@") in value:
            return True
    return False


def shown(uri: str) -> str:
    """Return a folder as messages show it: a local path as it is, a URI without its query and without a password."""
    scheme, is_uri, rest = uri.partition("://")
    if uri.startswith(("/", "file:")):
        return uri
    if not is_uri:
        return "..." if ":" in unquote(uri).rpartition("@")[0] else uri
    if has_password(uri):
        return f"{scheme}://..." if _SCHEME.fullmatch(scheme) else "..."
    return f"{scheme}://{re.split('[?#]', rest, maxsplit=1)[0]}"
