"""Certificates of the control plane, signed by an authority that is made with them and never leaves their folder."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_DAYS = "2"
_LOCAL = "DNS:localhost,IP:127.0.0.1"


@dataclass(frozen=True, slots=True)
class Pair:
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Certificates:
    authority: Path
    apiserver: Pair
    front_proxy: Pair
    keda: Path  # a folder of ca.crt, tls.crt and tls.key, as KEDA's programs look for them
    accounts: Path  # the key that signs the tokens of service accounts


def make_certificates(folder: Path) -> Certificates:
    """Blocks for about a second."""
    keda = folder / "keda"
    keda.mkdir(parents=True)
    authority = Pair(folder / "ca.crt", folder / "ca.key")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    _openssl("req", "-x509", *curve, "-days", _DAYS, "-subj", "/CN=kiln-test", "-keyout", authority.key, "-out",
             authority.certificate)  # fmt: skip

    def leaf(pair: Pair, name: str, *, also: str = "") -> Pair:
        asked, extensions = pair.key.with_suffix(".csr"), pair.key.with_suffix(".ext")
        extensions.write_text(f"subjectAltName={_LOCAL}{also}\nextendedKeyUsage=serverAuth,clientAuth\n")
        _openssl("req", *curve, "-subj", f"/CN={name}", "-keyout", pair.key, "-out", asked)
        _openssl("x509", "-req", "-in", asked, "-CA", authority.certificate, "-CAkey", authority.key,
                 "-CAcreateserial", "-days", _DAYS, "-extfile", extensions, "-out", pair.certificate)  # fmt: skip
        return pair

    apiserver = leaf(Pair(folder / "apiserver.crt", folder / "apiserver.key"), "kube-apiserver")
    front_proxy = leaf(Pair(folder / "front-proxy.crt", folder / "front-proxy.key"), "front-proxy-client")
    services = ",DNS:keda-operator.keda.svc.cluster.local,DNS:keda-metrics-apiserver.keda.svc"
    leaf(Pair(keda / "tls.crt", keda / "tls.key"), "keda-operator", also=services)
    (keda / "ca.crt").write_bytes(authority.certificate.read_bytes())
    accounts = folder / "accounts.key"
    _openssl("genrsa", "-out", accounts, "2048")
    return Certificates(authority.certificate, apiserver, front_proxy, keda, accounts)


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
