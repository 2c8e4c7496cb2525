//! The server's certificate: one that is given, or one that it makes for itself and keeps, so that browsers see the same one again.

use jiff::Timestamp;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, date_time_ymd};
use ring::digest::{SHA256, digest};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Years that a certificate of its own holds.
const YEARS: i32 = 10;

/// What a server proves itself with.
pub struct Identity {
    /// For the connections.
    pub config: Arc<ServerConfig>,
    /// SHA-256 of the certificate, as browsers show it: `AB:CD:...`.
    pub fingerprint: String,
}

impl Identity {
    /// Reads a certificate, with those above it, and its key, both in PEM.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, String> {
        let cannot =
            |path: &Path, error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<CertificateDer<'static>>, _>>)
            .map_err(|error| cannot(certificate, &error))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| cannot(key, &error))?;
        Self::of(chain, secret)
            .map_err(|error| format!("{} and {}: {error}", certificate.display(), key.display()))
    }

    fn of(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, String> {
        let fingerprint = fingerprint(chain.first().ok_or("there is no certificate")?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map(|builder| builder.with_no_client_auth())
            .and_then(|builder| builder.with_single_cert(chain, key))
            .map_err(|error| error.to_string())?;
        Ok(Self { config: Arc::new(config), fingerprint })
    }

    /// The certificate of its own in a folder, which is made if there is none.
    ///
    /// # Errors
    /// As [`Identity::read`].
    pub fn own(folder: &Path, names: &[String]) -> Result<Self, String> {
        let (certificate, key) = own_files(folder);
        if !certificate.exists() || !key.exists() {
            make(&certificate, &key, names)?;
        }
        let read =
            |path: &Path| fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
        let secret = PrivatePkcs8KeyDer::from(read(&key)?);
        let own = Self::of(vec![read(&certificate)?.into()], secret.into());
        own.map_err(|error| {
            format!("{}: {error}; `rampart-web certificate` makes another", certificate.display())
        })
    }
}

/// Where a certificate of its own is, and its key.
pub fn own_files(folder: &Path) -> (PathBuf, PathBuf) {
    (folder.join("certificate.der"), folder.join("key.der"))
}

fn make(certificate: &Path, key: &Path, names: &[String]) -> Result<(), String> {
    let made = || -> Result<(Vec<u8>, Vec<u8>), rcgen::Error> {
        let pair = KeyPair::generate()?;
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "Rampart");
        let year = i32::from(Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).year());
        // From the year before: a machine's clock may be wrong when it starts for the first time.
        params.not_before = date_time_ymd(year - 1, 1, 1);
        params.not_after = date_time_ymd(year + YEARS, 1, 1);
        Ok((params.self_signed(&pair)?.der().to_vec(), pair.serialize_der()))
    };
    let (public, secret) = made().map_err(|error| format!("cannot make a certificate: {error}"))?;
    for (path, mode, bytes) in [(key, 0o600, secret), (certificate, 0o644, public)] {
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(path)
            .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()));
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let hash = digest(&SHA256, certificate);
    let bytes: Vec<String> = hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    bytes.join(":")
}

/// Removes a certificate of its own: the next start makes another.
///
/// # Errors
/// The files cannot be removed.
pub fn forget(folder: &Path) -> std::io::Result<()> {
    let (certificate, key) = own_files(folder);
    for path in [certificate, key] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_certificate_of_its_own_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["fw.example".to_owned(), "192.0.2.1".to_owned()];
        let first = Identity::own(folder.path(), &names).unwrap().fingerprint;
        assert_eq!(Identity::own(folder.path(), &names).unwrap().fingerprint, first);
        assert_eq!(first.len(), 95);
        let (certificate, key) = own_files(folder.path());
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        forget(folder.path()).unwrap();
        assert_ne!(Identity::own(folder.path(), &names).unwrap().fingerprint, first);
        // What a text that is no PEM is read as.
        for (file, expected) in [(certificate, "cannot read"), (folder.path().join("none"), "cannot read")] {
            let error = Identity::read(&file, &key).err().unwrap();
            assert!(error.contains(expected), "{error}");
        }
        // Half of a pair, or the key of another.
        let other = tempfile::tempdir().unwrap();
        Identity::own(other.path(), &names).unwrap();
        Identity::own(folder.path(), &names).unwrap();
        fs::copy(own_files(other.path()).1, &key).unwrap();
        let error = Identity::own(folder.path(), &names).err().unwrap();
        assert!(error.contains("makes another"), "{error}");
    }
}
