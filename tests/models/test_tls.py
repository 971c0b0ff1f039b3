"""Servers whose certificates a private authority has signed."""

import shutil
import ssl
import subprocess

import pytest

from whymask import WhymaskError

from models.serving import ask_once, serving

pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A folder with an authority, ca.pem, and a server's key and certificate for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=private authority")
    openssl("req", *key[:-2], "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "names", "-out", "server.pem")  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def server(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem", authority / "server.key")
    with serving(lambda body: {"scores": [0.25] * len(body["images"])}, tls=context) as log:
        assert log.url.startswith("https://")
        yield log


def test_an_unknown_authority_is_refused(server):
    with pytest.raises(WhymaskError, match=r"could not be reached .*certificate verify failed"):
        ask_once(server, retries=0)[1]()


def test_it_is_trusted_by_the_option(server, authority):
    assert ask_once(server, ca=str(authority / "ca.pem"), retries=0)[1]().score == [0.25]


def test_it_is_trusted_by_the_environment(server, authority, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(authority / "ca.pem"))
    assert ask_once(server, retries=0)[1]().score == [0.25]
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(WhymaskError, match="certificate verify failed"):  # trust is not kept
        ask_once(server, retries=0)[1]()


def test_a_name_that_the_certificate_lacks_is_refused(server, authority):
    with pytest.raises(WhymaskError, match=r"could not be reached .*certificate"):
        ask_once(server.url.replace("127.0.0.1", "localhost"), ca=str(authority / "ca.pem"), retries=0)[1]()


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_certificates_is_one_sentence(tmp_path, content):
    file = tmp_path / "ca.pem"
    if content:
        file.write_text(content)
    with pytest.raises(WhymaskError, match=r"^ca=.*ca\.pem.* must name a file of certificates in PEM format: .*\.$"):
        ask_once("https://127.0.0.1:9/", ca=str(file))
