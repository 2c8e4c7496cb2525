//! Certificates for servers outside, and who signs them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

/// An authority of its own, whose files are in a folder.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
    /// File of its certificate.
    pub(crate) file: String,
}

impl Authority {
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, format!("authority {name}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let file = folder.join(format!("{name}-ca.pem"));
        std::fs::write(&file, pem("CERTIFICATE", params.self_signed(&key).unwrap().der())).unwrap();
        let issuer = Issuer::new(params, key);
        Self { issuer, folder: folder.to_owned(), file: file.display().to_string() }
    }

    /// Files of a certificate for a name or an address, and of its key.
    pub(crate) fn sign(&self, name: &str) -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &self.issuer).unwrap();
        let (certificate, key) =
            (pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", &key.serialize_der()));
        [(certificate, "crt"), (key, "key")].map(|(text, end)| {
            let file = self.folder.join(format!("{name}.{end}"));
            std::fs::write(&file, text).unwrap();
            // A key that others may read is used by nobody.
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            file.display().to_string()
        })
    }
}
