//! Servers of HTTPS that do not do what they should, and what a client makes of each.

use super::*;
use crate::app::client::{Arrival, Stop};
use crate::app::one_transaction::{HOST, MINUTE, SHORT, one_transaction, reset_on_close};
use measure::application::Protocol;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Honest,
    /// Has a certificate by an authority that nobody believes.
    OtherAuthority,
    /// Has one by the right authority for another server.
    OtherName,
    /// Shows the right certificate without having its key.
    StolenCertificate,
    /// Answers in plain text.
    NoTls,
    NeverGreets,
    ClosesAtOnce,
    ResetsAtOnce,
    /// Reads the request and resets.
    Resets,
    /// Ends within the file without a close_notify.
    Cuts,
    /// Ends within the file and says so.
    CutsOpenly,
    /// Ends behind the file without a close_notify.
    EndsUnsaid,
    Changes,
    WrongLength,
    /// Sends a record that nobody sealed.
    Forges,
    /// Goes on without TLS.
    GoesOnPlain,
    NeverAnswers,
    Refuses,
}

/// Shows a certificate with a key that is another's.
#[derive(Debug)]
struct Stolen(Arc<CertifiedKey>);

impl ResolvesServerCert for Stolen {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// The client's trust, and the server's end for a deed.
fn ends(deed: Deed) -> (TlsConnector, TlsAcceptor) {
    let right = Identity::new(&[HOST], Protocol::Https).unwrap();
    match deed {
        Deed::OtherAuthority => (right.connector, Identity::new(&[HOST], Protocol::Https).unwrap().acceptor),
        Deed::OtherName => {
            let other = Identity::new(&["server02"], Protocol::Https).unwrap();
            (other.connector, other.acceptor)
        }
        Deed::StolenCertificate => {
            let (authority, chain, key) = certificate(&[HOST]).unwrap();
            let (_, _, other) = certificate(&[HOST]).unwrap();
            let trust = Identity::of(authority, chain.clone(), key, Vec::new()).unwrap();
            let key = rustls::crypto::ring::sign::any_supported_type(&other).unwrap();
            let config = ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
                .with_protocol_versions(&[&rustls::version::TLS13])
                .unwrap()
                .with_no_client_auth()
                .with_cert_resolver(Arc::new(Stolen(Arc::new(CertifiedKey::new(chain, key)))));
            (trust.connector, Arc::new(config).into())
        }
        _ => (right.connector, right.acceptor),
    }
}

/// What the server sends to a client that has connected. That the client no longer reads is no fault.
async fn act(deed: Deed, mut stream: TcpStream, acceptor: TlsAcceptor, file: &[u8]) -> io::Result<()> {
    let mut hello = [0; 4096];
    match deed {
        Deed::NoTls => return stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").await,
        Deed::NeverGreets => return stream.read_to_end(&mut Vec::new()).await.map(drop),
        Deed::ClosesAtOnce => return stream.read(&mut hello).await.map(drop),
        Deed::ResetsAtOnce => {
            let _ = stream.read(&mut hello).await?;
            reset_on_close(&stream);
            return Ok(());
        }
        _ => {}
    }
    let mut tls = acceptor.accept(stream).await?;
    let _ = tls.read(&mut hello).await?;
    let head = |length| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    let whole = [head(file.len()), file.to_vec()].concat();
    match deed {
        Deed::Resets => reset_on_close(tls.get_ref().0),
        Deed::Cuts => tls.write_all(&whole[..whole.len() - 1]).await?,
        Deed::CutsOpenly => {
            tls.write_all(&whole[..whole.len() - 1]).await?;
            tls.shutdown().await?;
        }
        Deed::EndsUnsaid => tls.write_all(&whole).await?,
        Deed::Changes => {
            let mut changed = whole;
            *changed.last_mut().unwrap() ^= 1;
            tls.write_all(&changed).await?;
            tls.shutdown().await?;
        }
        Deed::WrongLength => {
            tls.write_all(&[head(file.len() - 1), file.to_vec()].concat()).await?;
            tls.shutdown().await?;
        }
        Deed::Forges => tls.get_mut().0.write_all(&[&[0x17, 3, 3, 0, 40][..], &[7; 40]].concat()).await?,
        Deed::GoesOnPlain => tls.get_mut().0.write_all(&whole).await?,
        Deed::NeverAnswers => drop(tls.read_to_end(&mut Vec::new()).await),
        Deed::Refuses => {
            tls.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await?;
            tls.shutdown().await?;
        }
        _ => {
            tls.write_all(&whole).await?;
            tls.shutdown().await?;
        }
    }
    tls.flush().await
}

fn met(deed: Deed, limit: Duration) -> Result<Arrival, Stop> {
    let (connector, acceptor) = ends(deed);
    let serve = async |stream: TcpStream, file: &[u8]| act(deed, stream, acceptor, file).await;
    one_transaction(Protocol::Https, &connector, limit, serve)
}

#[test]
fn every_failure_of_tls_is_told_by_what_the_client_saw() {
    let arrival = met(Deed::Honest, MINUTE).unwrap();
    assert!(arrival.first.is_some() && arrival.first <= arrival.last);
    for (deed, expected) in [
        (Deed::OtherAuthority, Failure::Certificate),
        (Deed::OtherName, Failure::Certificate),
        (Deed::StolenCertificate, Failure::Certificate),
        (Deed::NoTls, Failure::Handshake),
        (Deed::NeverGreets, Failure::HandshakeTimeout),
        (Deed::ClosesAtOnce, Failure::Handshake),
        (Deed::ResetsAtOnce, Failure::HandshakeReset),
        (Deed::Resets, Failure::Reset),
        (Deed::Cuts, Failure::Short),
        (Deed::CutsOpenly, Failure::Short),
        (Deed::EndsUnsaid, Failure::Short),
        (Deed::Changes, Failure::Content),
        (Deed::WrongLength, Failure::Content),
        (Deed::Forges, Failure::Record),
        (Deed::GoesOnPlain, Failure::Protocol),
        (Deed::NeverAnswers, Failure::Timeout),
        (Deed::Refuses, Failure::Status),
    ] {
        let waits = matches!(expected, Failure::Timeout | Failure::HandshakeTimeout);
        match met(deed, if waits { SHORT } else { MINUTE }) {
            Err(Stop::Failed(failure)) => assert_eq!(failure, expected, "{deed:?}"),
            other => panic!("{deed:?}: {other:?}"),
        }
    }
}
