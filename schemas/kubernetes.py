"""Texts that Kubernetes, a registry or a resolver takes in one form only.

Another is refused where it is read, in a sentence that says what to write: the API server would refuse it object by
object, and some of it nobody would refuse at all. The patterns do without look-around, since the schema of the Helm
chart has them, too, and Go's expressions have none.
"""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"  # RFC 1123
_PART = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
SUBDOMAIN = rf"{_PART}(\.{_PART})*"  # of most names of objects
_WORD = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
# A file in a mounted folder: `..` leads out of it, and what begins so is Kubernetes' own.
_FILE = r"(\.[A-Za-z0-9_-]|[A-Za-z0-9_-])[A-Za-z0-9._-]*"
_ID = r"(\.[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}|[A-Za-z0-9_-][A-Za-z0-9._-]{0,63})"  # a tenant's, that is such a file, too
_PORT = r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_HOST_PART = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_IPV6 = r"\[[0-9A-Fa-f]*:[0-9A-Fa-f:.]+\]"
FAR_HOST = rf"({_HOST_PART}(\.{_HOST_PART})+|{_IPV6})"  # names that resolve from every namespace, and numbers
_HOST = rf"({_HOST_PART}(\.{_HOST_PART})*|{_IPV6})"
_PATH_PART = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_DIGEST = r"@sha256:[0-9a-f]{64}"
# https://github.com/distribution/reference: with a tag or a digest, since without one it is `latest`.
IMAGE = rf"({_HOST_PART}(\.{_HOST_PART})*(:{_PORT})?/)?{_PATH_PART}(/{_PATH_PART})*(:{_TAG}({_DIGEST})?|{_DIGEST})"
LATEST = ":latest$"
FOLDER = rf"(/{_FILE})+/?"
S3_URL = r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/\S*)?"
_SHOWN_MAX = 80  # of a value that is refused


def form(pattern: str, what: str, cure: str, *, length_max: int = 253) -> AfterValidator:
    """Refuses a text that is not all `pattern`: it is no `what`, and one should write `cure`."""
    whole = re.compile(pattern)

    def check(text: str) -> str:
        if len(text) > length_max or not whole.fullmatch(text):
            raise ValueError(f"{text[:_SHOWN_MAX]!r} is no {what}; write {cure}")
        return text

    return AfterValidator(check)


def _quoted(value: object) -> object:
    if isinstance(value, bool | int | float):
        # pydantic makes a sentence of this error alone.
        raise ValueError(f"YAML reads it as {type(value).__name__}; write the text of it in quotes")  # noqa: TRY004
    return value


def _no_latest(image: str) -> str:
    if re.search(LATEST, image):
        raise ValueError(f"{image!r} is another image tomorrow, and two pods may differ; write the tag of a version")
    return image


def _key(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if re.fullmatch(_WORD, name) and (not slash or (len(prefix) <= 253 and re.fullmatch(SUBDOMAIN, prefix))):
        return key
    raise ValueError(f"{key[:_SHOWN_MAX]!r} is no key of a label; write it as name or example.com/name")


def address(text: str) -> str:
    """HOST:PORT as another namespace can use it. Raises ValueError with the cure."""
    host, _, port = text.rpartition(":")
    if host == "localhost":
        raise ValueError(f"{text!r} is to each pod the pod itself; write SERVICE.NAMESPACE.svc:{port}")
    if re.fullmatch(_HOST_PART, host):
        raise ValueError(
            f"{text!r} has no namespace in it, and KEDA asks from one of its own; write {host}.NAMESPACE.svc:{port}"
        )
    if len(host) > 253 or not re.fullmatch(rf"{FAR_HOST}:{_PORT}", text):
        raise ValueError(f"{text[:_SHOWN_MAX]!r} is no address; write HOST:PORT, with a port from 1 to 65535")
    return text


def _addresses(text: str) -> str:
    return ",".join(map(address, text.split(",")))


Name = Annotated[
    str,
    form(_LABEL, "name", "at most 63 small letters, digits and '-', first and last no '-'"),
    Field(description="a name in small letters, digits and -"),
]
Named = Annotated[
    str,
    form(SUBDOMAIN, "name of an object", "small letters, digits, '-' and '.', first and last a letter or a digit"),
    Field(description="a name in small letters, digits, . and -"),
]
LabelKey = Annotated[str, AfterValidator(_key), Field(description="a key of labels, as example.com/name or name")]
LabelValue = Annotated[
    str,
    BeforeValidator(_quoted),
    form(
        rf"({_WORD})?", "value of a label", "at most 63 letters, digits, '-', '_' and '.', first and last none of '-_.'"
    ),
    Field(description="the value of a label"),
]
Labels = dict[LabelKey, LabelValue]
FileName = Annotated[
    str,
    form(_FILE, "key of a Secret", "letters, digits, '-', '_' and '.', not '.' alone and not '..' at its start"),
    Field(description="a key of a Secret, as `web.key`"),
]
Image = Annotated[
    str,
    form(IMAGE, "image with a tag or digest", "NAME:TAG or NAME@sha256:DIGEST, as registry.example/promptkiln:0.1.0"),
    AfterValidator(_no_latest),
    Field(description="an image with its tag or digest"),
]
Cpu = Annotated[
    str,
    form(
        r"[1-9][0-9]{0,3}(\.[0-9]{1,3})?|0\.(0{0,2}[1-9]|0?[1-9][0-9]|[1-9][0-9]{2})|[1-9][0-9]{0,6}m",
        "number of CPUs",
        "it as '4' or '500m'",
    ),
    Field(description="CPUs in quotes, as '4' or '500m'"),
]
Size = Annotated[
    str,
    form(
        r"([1-9][0-9]{0,8}(\.[0-9]{1,3})?|0\.[0-9]{0,2}[1-9])(Ki|Mi|Gi|Ti|k|M|G|T)", "size", "it as '16Gi' or '512Mi'"
    ),
    Field(description="a size in quotes, as '16Gi' or '512Mi'"),
]
Address = Annotated[str, AfterValidator(address), Field(description="HOST:PORT, a Service with its namespace")]
Addresses = Annotated[
    str, AfterValidator(_addresses), Field(description="HOST:PORT, by commas, a Service with its namespace")
]
HttpUrl = Annotated[
    str,
    # Nor a user with his password before the host: it would stand in a ConfigMap.
    form(rf"https?://{_HOST}(:{_PORT})?(/[^\s?#]*)?", "address of a store", "http(s)://HOST:PORT", length_max=1000),
    Field(description="http(s)://HOST:PORT"),
]
StoreUrl = Annotated[
    str,
    form(rf"{S3_URL}|file://{FOLDER}", "store", "s3://BUCKET/PREFIX, or file:///FOLDER of a claim", length_max=1000),
    Field(description="s3://BUCKET/PREFIX, or file:///FOLDER of a claim"),
]
Region = Annotated[
    str, form(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "region", "it as eu-central-1"), Field(description="as eu-central-1")
]
Folder = Annotated[
    str,
    form(FOLDER, "folder of a container", "an absolute path without '..', as /models"),
    Field(description="an absolute path, as /models"),
]
KeyOfTenant = Annotated[
    str,
    form(rf"{_ID}/{_ID}", "key of a tenant", "TENANT/KEY ID, as atelier/web", length_max=129),
    Field(description="TENANT/KEY ID, as atelier/web"),
]
