"""What is no name, image, address or quantity is refused in a sentence with the cure; what is one is taken."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from schemas import kubernetes

TAKEN: dict[str, list[str]] = {
    "Name": ["a", "kiln-2", "9", "a" * 63],
    "Named": ["a.b-c.0", "a" * 253],
    "LabelKey": ["release", "karpenter.sh/capacity-type", "a_b.C", f"{'a' * 253}/x"],
    "LabelValue": ["", "spot", "A_b.c-1", "a" * 63],
    "FileName": ["web.key", ".key", "_a", "a" * 253],
    "KeyOfTenant": ["atelier/web", "a.b/.c", "_/-"],
    "Image": [
        "promptkiln:0.1.0", "a/b/c:x_1.2-3", "localhost:5000/a:1", "registry.example:443/a/b:1", "Registry.Example/a:1",
        f"a@sha256:{'0' * 64}", f"a:1@sha256:{'0' * 64}", "a__b/c--d.e:1", "a:latest-cuda",
    ],
    "Cpu": ["1", "4", "0.5", "0.25", "1.5", "500m", "0.100"],
    "Size": ["16Gi", "1.5Gi", "0.5Gi", "512M", "900000Ki"],
    "Address": ["scaler.keda.svc:9", "10.0.0.7:9092", "[::1]:65535", "a.b:1"],
    "Addresses": ["a.b:1", "a.b:1,c.d:2", "[::1]:65535,b-1.kafka.example.com:9098"],
    "HttpUrl": ["http://minio:9000", "https://s3.example.com", "http://[fd00::1]:9000/prefix"],
    "StoreUrl": ["s3://promptkiln", "s3://a.b-c/x/y", "file:///store/pictures", "file:///a/b_c/"],
    "Region": ["eu-central-1", "auto", "us_east.1"],
    "Folder": ["/models", "/a/.b/c-d_e.f/"],
}  # fmt: skip
REFUSED: dict[str, list[tuple[str, str]]] = {
    "Name": [
        ("", "write at most 63"), ("A", "small letters"), ("-a", "no '-'"), ("a.b", "is no name"), ("a" * 64, "63"),
        ("a\n", "small letters"),
    ],
    "Named": [(each, "first and last a letter") for each in ("", "..", "../..", "a..b", "a.-b", "A", "a/b", "a" * 254)],
    "LabelKey": [
        (each, "write it as name or example.com/name")
        for each in ("", "a b", "-a", "a/b/c", "A.example/x", "/x", "x/", f"{'a' * 254}/x", "a" * 64)
    ],
    "LabelValue": [("a b", "no value of a label"), ("-a", "first and last"), ("a" * 64, "63"), ("a/b", "letters")],
    "FileName": [(each, "not '..' at its start") for each in ("", ".", "..", "..data", "a/b", "a b", "a" * 254)],
    "KeyOfTenant": [
        (each, "write TENANT/KEY ID")
        for each in ("../..", "a/..", "../a", "./a", "a/", "a", "a/b/c", f"{'a' * 65}/b", "..a/b")
    ],
    "Image": [
        (each, "write NAME:TAG or NAME@sha256:DIGEST")
        for each in ("a", "a:b:c", "a:", ":1", "a//b:1", "A:1", "a/B:1", "a b:1", "a:1@sha256:00", "a:-1", "http://a:1",
                     "a:99999/b:1", f"a:{'x' * 129}", f"{'a' * 300}:1")
    ] + [("registry.example/a:latest", "write the tag of a version")],
    "Cpu": [(each, "write it as '4' or '500m'") for each in ("0", "0m", "0.000", "4Gi", "-1", "1e3", "0.0001", ".5")],
    "Size": [(each, "write it as '16Gi'") for each in ("0Gi", "16", "16m", "16GB", "16gi", "16 Gi", "0.0Gi", "")],
    "Address": [
        ("scaler:8085", "KEDA asks from one of its own; write scaler.NAMESPACE.svc:8085"),
        ("localhost:8085", "to each pod the pod itself; write SERVICE.NAMESPACE.svc:8085"),
        *((each, "write HOST:PORT") for each in (
            "scaler", "a.b", "a.b:", "a.b:0", "a.b:65536", "http://a.b:1", "a..b:1", "-a.b:1", "a_b.c:1", "[]:1", "",
            "a.b:1,c.d:2", f"{'a.' * 130}b:1",
        )),
    ],
    "Addresses": [
        ("kafka:9092", "has no namespace in it, .* write kafka.NAMESPACE.svc:9092"),
        ("a.b:1,kafka:9092", "write kafka.NAMESPACE.svc:9092"),
        ("a.b:1,", "write HOST:PORT"),
        ("a.b:1, c.d:2", "write HOST:PORT"),
        ("a.b:1,c.d:0", "'c.d:0' is no address"),
    ],
    "HttpUrl": [
        (each, r"write http\(s\)://HOST:PORT")
        for each in ("minio:9000", "ftp://a", "http://", "http://a:0", "http://[::1", "http://user:word@a", "http://a/?b")
    ],
    "StoreUrl": [
        (each, "write s3://BUCKET/PREFIX, or file:///FOLDER")
        for each in ("", "s3://", "s3://A", "s3://a b", "gs://a", "file://a", "file:///", "file:///a:b", "file:///a/../b",
                     "file:///./a")
    ],
    "Region": [("eu central", "write it as eu-central-1"), ("", "no region")],
    "Folder": [(each, "without '..'") for each in ("models", "/", "//", "/a/../b", "/..", "/a b", "/a/./b", "")],
}  # fmt: skip


def _type(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(getattr(kubernetes, name))


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in TAKEN.items() for text in texts])
def test_one_that_can_be_is_taken_as_it_stands(name: str, text: str) -> None:
    assert _type(name).validate_python(text) == text


@pytest.mark.parametrize(
    ("name", "text", "cure"), [(name, text, cure) for name, each in REFUSED.items() for text, cure in each]
)
def test_one_that_cannot_be_is_refused_with_the_cure(name: str, text: str, cure: str) -> None:
    with pytest.raises(ValidationError, match=cure) as refused:
        _type(name).validate_python(text)
    (fault,) = refused.value.errors()
    assert "\n" not in fault["msg"]


@pytest.mark.parametrize("value", [1, 1.1, True])
def test_a_label_that_yaml_reads_as_a_number_is_told_so(value: object) -> None:
    """Its text may be another than the one that was written: 1.10 is 1.1."""
    with pytest.raises(ValidationError, match=r"YAML reads it as .*; write the text of it in quotes"):
        _type("LabelValue").validate_python(value)
