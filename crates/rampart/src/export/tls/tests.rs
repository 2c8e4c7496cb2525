use super::super::To;
use super::super::tests::{counted, outlet, report, until};
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

/// Who signs certificates.
struct Signer {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Signer {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// A certificate for these names, and its key.
    fn sign(&self, names: &[&str]) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    fn pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// A collector with a certificate for these names; `asks` for one that this signer has signed.
    fn collector(&self, names: &[&str], asks: bool) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let builder =
            if asks { builder.with_client_cert_verifier(verifier) } else { builder.with_no_client_auth() };
        let (certificate, key) = self.sign(names);
        Arc::new(builder.with_single_cert(vec![certificate], key).unwrap())
    }
}

fn own(signer: &Signer) -> Option<(String, String)> {
    let (certificate, key) = signer.sign(&["fw.example"]);
    Some((pem("CERTIFICATE", &certificate), pem("PRIVATE KEY", key.secret_der())))
}

fn accept(listener: &TcpListener, config: &Arc<ServerConfig>) -> StreamOwned<ServerConnection, TcpStream> {
    let stream = listener.accept().unwrap().0;
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // What says that it closes is there when the next message is sent.
    stream.set_nodelay(true).unwrap();
    StreamOwned::new(ServerConnection::new(Arc::clone(config)).unwrap(), stream)
}

#[test]
fn a_collector_and_the_firewall_must_know_each_other() {
    let (good, other) = (Signer::new(), Signer::new());
    let by = |ca: &Signer, name: Option<&str>, own| Credentials {
        ca: ca.pem(),
        name: name.map(str::to_owned),
        own,
    };
    let by_address = || good.collector(&["127.0.0.1"], false);
    #[rustfmt::skip]
    let rows = [
        ("its address", by_address(), by(&good, None, None), Ok(())),
        ("its name", good.collector(&["logs.example"], false), by(&good, Some("logs.example"), None), Ok(())),
        ("both prove themselves", good.collector(&["127.0.0.1"], true), by(&good, None, own(&good)), Ok(())),
        ("another signer", by_address(), by(&other, None, None), Err("invalid peer certificate")),
        ("another address", good.collector(&["127.0.0.2"], false), by(&good, None, None), Err("not valid for name")),
        ("another name", by_address(), by(&good, Some("logs.example"), None), Err("not valid for name")),
        ("the firewall does not prove itself", good.collector(&["127.0.0.1"], true), by(&good, None, None), Err("fatal alert")),
        ("nor by somebody else", good.collector(&["127.0.0.1"], true), by(&good, None, own(&other)), Err("fatal alert")),
    ];
    for (row, config, by, expected) in rows {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let outlet = outlet(To::Tls(listener.local_addr().unwrap(), Arc::new(by)));
        outlet.push(&Arc::new(report("first")));
        let mut stream = accept(&listener, &config);
        match expected {
            Ok(()) => {
                assert!(counted(&mut stream).ends_with("first"), "{row}");
                // Who closes it loses nothing that is sent later.
                stream.conn.send_close_notify();
                while stream.conn.wants_write() {
                    stream.conn.write_tls(&mut stream.sock).unwrap();
                }
                outlet.push(&Arc::new(report("second")));
                let mut again = accept(&listener, &config);
                assert!(counted(&mut again).ends_with("second"), "{row}");
                let state = until(|| Some(outlet.state()).filter(|state| state.sent == 2));
                assert_eq!((state.lost, state.trouble), (0, None), "{row}");
            }
            Err(why) => {
                let mut nothing = [0];
                assert!(stream.read_exact(&mut nothing).is_err(), "{row}: a message came");
                drop(stream);
                // Whoever asks for a certificate refuses after the firewall may already send.
                outlet.push(&Arc::new(report("second")));
                let trouble = until(|| outlet.state().trouble);
                assert!(trouble.contains(why) && trouble.contains("[log.tls]"), "{row}: {trouble}");
            }
        }
    }
}

#[test]
fn a_collector_that_says_nothing_is_left_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let by = Credentials { ca: Signer::new().pem(), name: None, own: None };
    let outlet = outlet(To::Tls(listener.local_addr().unwrap(), Arc::new(by)));
    let trouble = until(|| outlet.state().trouble);
    assert!(trouble.contains("it does not answer"), "{trouble}");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let signer = Signer::new();
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    };
    let (certificate, key) = own(&signer).unwrap();
    put("ca", &signer.pem(), 0o644);
    put("certificate", &certificate, 0o644);
    put("key", &key, 0o600);
    put("open-key", &key, 0o644);
    put("empty", "", 0o600);
    put("broken", &signer.pem().replace("MI", "IM"), 0o600);
    put("no-key", &certificate, 0o600);
    put("other-key", &own(&signer).unwrap().1, 0o600);
    let with = |ca: &str, own: &str| {
        let text = format!(
            "[zones]\na = {{ interfaces = 'e0' }}\n[log]\nsyslog = 'tls://192.0.2.1:6514'\n[log.tls]\nca = '{ca}'\n{own}"
        );
        let policy = Policy::parse("p", &text).unwrap().in_folder(Some(Path::new(folder.path()).to_owned()));
        check_files(&policy)
    };
    let own = |certificate: &str, key: &str| format!("certificate = '{certificate}'\nkey = '{key}'\n");
    for (ca, own, expected) in [
        ("ca", String::new(), Ok(())),
        ("ca", own("certificate", "key"), Ok(())),
        ("nothing", String::new(), Err("nothing: No such file")),
        ("empty", String::new(), Err("empty: there is no certificate")),
        ("key", String::new(), Err("key: there is no certificate")),
        ("broken", String::new(), Err("broken: ")),
        ("ca", own("certificate", "open-key"), Err("others may read or write")),
        ("ca", own("certificate", "other-key"), Err("certificate: ")),
        ("ca", own("certificate", "no-key"), Err("its key")),
        ("ca", own("empty", "key"), Err("empty: there is no certificate")),
    ] {
        // Whoever is not root is told of no key.
        if !own.is_empty() && !nix::unistd::geteuid().is_root() {
            continue;
        }
        let checked = with(ca, &own);
        match expected {
            Ok(()) => assert_eq!(checked, Ok(()), "{ca} {own}"),
            Err(why) => assert!(checked.as_ref().unwrap_err().contains(why), "{ca} {own}: {checked:?}"),
        }
    }
}
