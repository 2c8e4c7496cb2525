//! TLS for clients that come by HTTPS, as the API's do by default: a certificate that the server makes for itself at each start. It hides
//! what is said from others on the way and proves nothing; clients do not ask it to.

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use std::sync::Arc;

/// The first byte of a TLS connection: a record of the handshake. No HTTP request begins with it.
pub(crate) const HANDSHAKE: u8 = 0x16;

/// A new certificate for these names.
pub(crate) fn identity(names: Vec<String>) -> Result<Arc<ServerConfig>, String> {
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let certificate = CertificateParams::new(names)
        .and_then(|params| params.self_signed(&key))
        .map_err(|error| error.to_string())?;
    let secret = PrivatePkcs8KeyDer::from(key.serialize_der());
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map(|builder| builder.with_no_client_auth())
        .and_then(|builder| builder.with_single_cert(vec![certificate.der().clone()], secret.into()))
        .map(Arc::new)
        .map_err(|error| error.to_string())
}
