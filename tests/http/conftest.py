"""Servers for the tests of HTTP: see `servers` for the faults that they can be told to make."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
import trustme
from servers import RawServer, Serve, Step, refused_port, unaccepting_port

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.fixture
def serve() -> Generator[Serve]:
    """`serve(reset, answer(503))`: a `RawServer` that ends with the test, as many as wanted."""
    with ExitStack() as stack:

        def start(
            *script: Step, then: Step | None = None, tls: ssl.SSLContext | None = None
        ) -> RawServer:
            return stack.enter_context(RawServer(*script, then=then, tls=tls))

        yield start


@pytest.fixture
def refused() -> Generator[str]:
    """The URL of a port of 127.0.0.1 that refuses connections."""
    with refused_port() as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def unaccepting() -> Generator[str]:
    """The URL of a port of 127.0.0.1 where every connection times out."""
    with unaccepting_port() as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """A certificate authority that no client trusts unless told to."""
    return trustme.CA()


@pytest.fixture(scope="session")
def authority_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The authority's certificate, for a client that takes a file: `verify=authority_file`."""
    path = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture(scope="session")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    """For `serve(…, tls=server_tls)`: a certificate for 127.0.0.1 and localhost."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    return context


@pytest.fixture(scope="session")
def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    """For a client that is to trust the certificate of `server_tls`."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context
