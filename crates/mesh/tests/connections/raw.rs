// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client that speaks TLS to a gateway without the gateway's code.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use socket2::{Domain, Socket, Type};

use diolkos_mesh::Files;

use crate::gateway::LONG;

pub type Client = rustls::StreamOwned<ClientConnection, TcpStream>;
pub type Server = rustls::StreamOwned<ServerConnection, TcpStream>;

/// Opens a TCP connection from an address.
pub fn tcp(from: IpAddr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).expect("a socket");
    socket
        .bind(&SocketAddr::new(from, 0).into())
        .expect("a free address");
    socket.connect(&to.into()).expect("somebody listens");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LONG)).expect("it is set");
    stream.set_write_timeout(Some(LONG)).expect("it is set");
    stream
}

/// The properties of a client.
#[derive(Clone, Copy)]
pub struct How<'a> {
    /// Its own certificate, if it has one, and the authority that it trusts.
    pub files: &'a Files,
    pub has_certificate: bool,
    pub tls12: bool,
    pub protocol: Option<&'a [u8]>,
}

impl How<'_> {
    pub fn good(files: &Files) -> How<'_> {
        How {
            files,
            has_certificate: true,
            tls12: false,
            protocol: Some(b"diolkos-mesh/1"),
        }
    }

    fn own(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let chain = CertificateDer::pem_file_iter(&self.files.certificate).expect("a file");
        let key = PrivateKeyDer::from_pem_file(&self.files.key).expect("a key");
        (chain.map(|one| one.expect("a certificate")).collect(), key)
    }

    /// Returns a TLS client whose handshake has not begun.
    pub fn client(&self, stream: TcpStream, to: usize) -> Client {
        let mut roots = RootCertStore::empty();
        for root in
            CertificateDer::pem_slice_iter(&fs::read(&self.files.authority).expect("a file"))
        {
            roots
                .add(root.expect("a certificate"))
                .expect("an authority");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let version = if self.tls12 { &TLS12 } else { &TLS13 };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_root_certificates(roots);
        let mut config = match self.has_certificate {
            true => {
                let (chain, key) = self.own();
                config.with_client_auth_cert(chain, key).expect("a pair")
            }
            false => config.with_no_client_auth(),
        };
        config.alpn_protocols = self.protocol.iter().map(|p| p.to_vec()).collect();
        let name = ServerName::try_from(crate::gateway::name(to)).expect("a name");
        let client = ClientConnection::new(Arc::new(config), name).expect("a client");
        Client::new(client, stream)
    }

    /// Returns a TLS server without verification of the client, for the next connection.
    pub fn server(&self, listener: &TcpListener) -> Server {
        let (chain, key) = self.own();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .expect("a version")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a pair");
        config.alpn_protocols = self.protocol.iter().map(|p| p.to_vec()).collect();
        let (stream, _) = listener.accept().expect("a connection");
        stream.set_read_timeout(Some(LONG)).expect("it is set");
        Server::new(
            ServerConnection::new(Arc::new(config)).expect("a server"),
            stream,
        )
    }
}

/// Makes a connection that counts, with good files.
pub fn join(files: &Files, from: IpAddr, to: SocketAddr, number: usize) -> Client {
    let mut client = How::good(files).client(tcp(from, to), number);
    let mut welcome = [0];
    client.read_exact(&mut welcome).expect("it is let in");
    assert_eq!(welcome, [1]);
    client
}

/// Returns a message as it is on the connection.
pub fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes(), message].concat()
}

/// Reads the next message.
pub fn read(client: &mut Client) -> Vec<u8> {
    let mut length = [0; 4];
    client.read_exact(&mut length).expect("a length");
    let mut message = vec![0; u32::from_be_bytes(length) as usize];
    client.read_exact(&mut message).expect("a message");
    message
}

/// Returns true if the other side has ended the connection.
pub fn is_ended(client: &mut Client) -> bool {
    client.sock.set_read_timeout(Some(LONG)).expect("it is set");
    let mut rest = Vec::new();
    match client.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
        ),
    }
}

/// Writes until the other side takes no more for a second. Returns how much it took.
pub fn fill(client: &mut Client, bytes: &[u8]) -> usize {
    let second = Some(Duration::from_secs(1));
    client.sock.set_write_timeout(second).expect("it is set");
    // A TLS stream that cannot write reads instead, so reads need the timeout too.
    client.sock.set_read_timeout(second).expect("it is set");
    let mut taken = 0;
    loop {
        match client.write_all(bytes).and_then(|()| client.flush()) {
            Ok(()) => taken += bytes.len(),
            Err(_) => return taken,
        }
    }
}
