//! Collectors by TLS 1.3 (RFC 5425, RFC 7011 section 10.4): the collector proves who it is, and the firewall too if the policy says by which certificate. The
//! daemon reads the files, because the process that exports opens none.

use super::line::{Within, look};
use crate::list_copies::place_of;
use crate::whole_file;
use policy::Policy;
use policy::exports::{Tls, Transport};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, IpAddr as TlsAddress, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// What a connection needs, as the files have it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Credentials {
    /// Certificates, in PEM, one of which has signed the collector's.
    ca: String,
    /// The name in the collector's certificate; `None`: its address is there.
    name: Option<String>,
    /// A certificate with those above it, and its key, both in PEM.
    own: Option<(String, String)>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("...")
    }
}

/// Whether the files that a policy names for its collectors can be used.
///
/// # Errors
/// One cannot: what to do.
pub(crate) fn check_files(policy: &Policy) -> Result<(), String> {
    let exports = &policy.settings.exports;
    let is_by_tls = exports.collectors().any(|collector| collector.transport == Transport::Tls);
    match &exports.tls {
        // Only root may read a key, and anybody may check a policy.
        Some(tls) if is_by_tls && (tls.own.is_none() || nix::unistd::geteuid().is_root()) => {
            Credentials::read(tls, policy).map(drop).map_err(|why| format!("{}: {why}", policy.file))
        }
        _ => Ok(()),
    }
}

impl Credentials {
    /// Those of a policy, which a connection can be made with.
    ///
    /// # Errors
    /// What is wrong with which file, and what to do. Whoever else reads the key is this firewall to the collector.
    pub(super) fn read(tls: &Tls, policy: &Policy) -> Result<Self, String> {
        let read = |file: &str, is_secret: bool| -> Result<String, String> {
            let path = place_of(file, policy.folder.as_deref())?;
            let shown = path.display();
            let open = whole_file::open(&path).map_err(|error| format!("{shown}: {error}"))?;
            if is_secret {
                whole_file::check_secret(&open, &shown)?;
            }
            let bytes = whole_file::read_from(open).map_err(|error| format!("{shown}: {error}"))?;
            String::from_utf8(bytes).map_err(|_| format!("{shown}: it is not in PEM"))
        };
        let own = match &tls.own {
            Some((certificate, key)) => Some((read(certificate, false)?, read(key, true)?)),
            None => None,
        };
        let credentials = Self { ca: read(&tls.ca, false)?, name: tls.name.clone(), own };
        credentials.config().map_err(|(part, why)| {
            let file = match part {
                Part::Ca => &tls.ca,
                Part::Own => tls.own.as_ref().map_or("", |(certificate, _)| certificate),
            };
            format!("{file}: {why}")
        })?;
        Ok(credentials)
    }

    fn config(&self) -> Result<ClientConfig, (Part, String)> {
        let wrong = |part| move |error: &dyn fmt::Display| (part, error.to_string());
        let (ca, own) = (wrong(Part::Ca), wrong(Part::Own));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.ca.as_bytes()) {
            let certificate = certificate.map_err(|error| ca(&error))?;
            roots.add(certificate).map_err(|error| ca(&error))?;
        }
        if roots.is_empty() {
            return Err(ca(&"there is no certificate in PEM"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| ca(&error))?
            .with_root_certificates(roots);
        let Some((certificate, key)) = &self.own else { return Ok(builder.with_no_client_auth()) };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| own(&error))?;
        if chain.is_empty() {
            return Err(own(&"there is no certificate in PEM"));
        }
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|error| own(&format!("its key: {error}")))?;
        builder.with_client_auth_cert(chain, key).map_err(|error| own(&error))
    }
}

/// What is wrong is in one of these files.
#[derive(Clone, Copy)]
enum Part {
    Ca,
    Own,
}

/// A connection that is encrypted.
#[derive(Debug)]
pub(super) struct TlsLine {
    connection: ClientConnection,
    stream: TcpStream,
}

impl TlsLine {
    /// Agrees with the collector at the other end, within a time.
    pub(super) fn begin(stream: TcpStream, to: SocketAddr, by: &Credentials) -> io::Result<Self> {
        let config = by.config().map_err(|(_, why)| io::Error::other(why))?;
        let name = match &by.name {
            Some(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
            None => ServerName::IpAddress(TlsAddress::from(to.ip())),
        };
        let mut connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        // All of a message is taken at once, and then written within a time.
        connection.set_buffer_limit(None);
        let mut within = Within::new(&stream);
        while connection.is_handshaking() {
            connection.complete_io(&mut within)?;
        }
        Ok(Self { connection, stream })
    }

    /// Whether the other end has not closed it.
    pub(super) fn is_open(&mut self) -> io::Result<()> {
        let Self { connection, stream } = self;
        look(stream, |mut stream| {
            let read = connection.read_tls(&mut stream)?;
            let state = connection.process_new_packets().map_err(io::Error::other)?;
            let mut said = vec![0; state.plaintext_bytes_to_read()];
            connection.reader().read_exact(&mut said)?;
            Ok(if state.peer_has_closed() { 0 } else { read })
        })
    }

    pub(super) fn write(&mut self, message: &[u8]) -> io::Result<()> {
        self.connection.writer().write_all(message)?;
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut within = Within::new(&self.stream);
        while self.connection.wants_write() {
            self.connection.write_tls(&mut within)?;
        }
        Ok(())
    }
}

impl Drop for TlsLine {
    /// So that the collector knows that it has everything (RFC 5425 section 4.4), if it takes that at once.
    fn drop(&mut self) {
        self.connection.send_close_notify();
        if self.stream.set_nonblocking(true).is_ok() {
            let _ = self.connection.write_tls(&mut self.stream);
        }
    }
}

#[cfg(test)]
mod tests;
