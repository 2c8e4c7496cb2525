//! TLS 1.3 for HTTPS and HTTP/2: an authority and a server's certificate of their own for every run, and what its errors mean. The authority's key
//! ends with the making of the certificate, so no other program has one that clients trust: a firewall that terminates TLS between clients
//! and servers is found out. No session is ever resumed, so that every connection has a whole handshake.

use super::http2;
use super::server::Service;
use measure::application::{Failure, Protocol};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{
    AlertDescription, ClientConfig, Error, PeerMisbehaved, RootCertStore, ServerConfig, client::Resumption,
};
use std::io;
use std::sync::Arc;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Both ends of a run's TLS.
#[derive(Clone)]
pub(super) struct Identity {
    /// The clients' end.
    pub(super) connector: TlsConnector,
    pub(super) acceptor: TlsAcceptor,
}

/// The TLS of a run in which some speak HTTP/1.1 behind it and others HTTP/2: one authority and one certificate.
#[derive(Clone, Debug)]
pub(super) struct Identities {
    of_protocols: Vec<(Protocol, Identity)>,
}

impl Identities {
    /// For what of a mix goes over TLS; `None` where nothing does.
    pub(super) fn new(names: &[&str], protocols: &[Protocol]) -> io::Result<Option<Self>> {
        if protocols.is_empty() {
            return Ok(None);
        }
        let (authority, chain, key) = certificate(names).map_err(io::Error::other)?;
        let of = |protocol: &Protocol| {
            let (authority, chain, key) = (authority.clone(), chain.clone(), key.clone_key());
            Ok((*protocol, Identity::of(authority, chain, key, alpn(*protocol)).map_err(io::Error::other)?))
        };
        let of_protocols: Vec<(Protocol, Identity)> =
            protocols.iter().map(of).collect::<io::Result<Vec<_>>>()?;
        Ok(Some(Self { of_protocols }))
    }

    /// The clients' end of a protocol.
    pub(super) fn connector(&self, protocol: Protocol) -> Option<&TlsConnector> {
        let found = self.of_protocols.iter().find(|(of, _)| *of == protocol);
        found.map(|(_, identity)| &identity.connector)
    }

    /// The servers' end: that of HTTP/2 where there is one, because it offers HTTP/1.1 to those that offer nothing.
    pub(super) fn service(&self) -> Option<Service> {
        let acceptor = |wanted| {
            let found = self.of_protocols.iter().find(|(protocol, _)| *protocol == wanted);
            found.map(|(_, identity)| identity.acceptor.clone())
        };
        match (acceptor(Protocol::Https), acceptor(Protocol::Http2)) {
            (Some(_), Some(both)) => Some(Service::Either(both)),
            (Some(https), None) => Some(Service::Https(https)),
            (None, Some(http2)) => Some(Service::Http2(http2)),
            (None, None) => None,
        }
    }
}

impl Identity {
    /// A new authority, and a certificate by it for servers of these names; the handshake agrees upon what is spoken behind it.
    #[cfg(test)]
    pub(super) fn new(names: &[&str], protocol: Protocol) -> io::Result<Self> {
        let (authority, chain, key) = certificate(names).map_err(io::Error::other)?;
        Self::of(authority, chain, key, alpn(protocol)).map_err(io::Error::other)
    }

    fn of(
        authority: CertificateDer<'static>,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        alpn: Vec<Vec<u8>>,
    ) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(authority)?;
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let versions = [&rustls::version::TLS13];
        let mut client =
            builder.with_protocol_versions(&versions)?.with_root_certificates(roots).with_no_client_auth();
        client.resumption = Resumption::disabled();
        client.alpn_protocols.clone_from(&alpn);
        let builder = ServerConfig::builder_with_provider(provider);
        let mut server =
            builder.with_protocol_versions(&versions)?.with_no_client_auth().with_single_cert(chain, key)?;
        server.send_tls13_tickets = 0;
        server.alpn_protocols = alpn;
        Ok(Self {
            connector: TlsConnector::from(Arc::new(client)),
            acceptor: TlsAcceptor::from(Arc::new(server)),
        })
    }
}

/// The names of protocols that ends offer each other (ALPN); those of HTTP/1.1 offer none.
fn alpn(protocol: Protocol) -> Vec<Vec<u8>> {
    if protocol == Protocol::Http2 { vec![http2::ALPN.to_vec()] } else { Vec::new() }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity")
    }
}

/// An authority, and a server's certificate by it with its key. Keys are of the curve P-256.
fn certificate(
    names: &[&str],
) -> Result<(CertificateDer<'static>, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((authority.der().clone(), vec![certificate.der().clone()], key.into()))
}

/// What an error of TLS says; `None` of an error that is not TLS's.
fn of_tls(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// What an error of TLS in a handshake means.
pub(super) fn handshake_failure(error: &io::Error) -> Option<Failure> {
    Some(match of_tls(error)? {
        Error::InvalidCertificate(_) => Failure::Certificate,
        Error::AlertReceived(AlertDescription::NoApplicationProtocol)
        | Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedApplicationProtocol) => Failure::Alpn,
        error if is_altered(error) => Failure::Record,
        _ => Failure::Handshake,
    })
}

/// What an error of TLS after its handshake means.
pub(super) fn failure(error: &io::Error) -> Option<Failure> {
    let error = of_tls(error)?;
    Some(if is_altered(error) { Failure::Record } else { Failure::Protocol })
}

/// Whether one of the ends got a record that its sender did not seal so.
fn is_altered(error: &Error) -> bool {
    matches!(error, Error::DecryptError | Error::AlertReceived(AlertDescription::BadRecordMac))
}

#[cfg(test)]
mod tests;
