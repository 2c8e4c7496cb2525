//! Programs that people have, each through an explicit and a transparent gateway of a running firewall to nginx: what they get is what the server
//! has, byte by byte, and it went through the gateway.

use crate::bed::{Bed, until};
use crate::http_gateway::{large, nginx};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fs;
use testkit::namespace;

const PACKETS: &str = "[[rules]]\nname = 'to-gateway'\nfrom = 'inside'\nto = 'self'\nservice = 'tcp/3128'\naction = 'allow'\n\
    [[rules]]\nname = 'web'\nfrom = 'inside'\nto = 'outside'\nservice = 'tcp/8080-8081'\naction = 'allow'\ngateway = 'transparent'\n\
    [[rules]]\nname = 'from-gateway'\nfrom = 'self'\nto = 'outside'\nservice = 'tcp/8080-8081'\naction = 'allow'\n";
/// Each is called by its mode.
const GATEWAYS: [(&str, &str); 2] = [
    ("explicit", "listen = '10.81.1.1:3128'\nconnect_ports = [8080, 8081]\n"),
    ("transparent", "mode = 'transparent'\nlisten = '[::]:3129'\n"),
];

/// A policy with an explicit and a transparent gateway to the host outside, with these keys more, and these rules of the packet filter.
pub(crate) fn policy(bed: &Bed, keys: &str, rules: &str) -> String {
    let gateway = |(name, own): (&str, &str)| {
        format!(
            "[gateways.{name}]\nprotocol = 'http'\nports = [8080, 8081]\n{own}{keys}\
             [[gateways.{name}.rules]]\nname = 'all'\naction = 'allow'\nhosts = '10.81.2.2'\nlog = true\n"
        )
    };
    bed.policy("p.toml", &format!("{PACKETS}{rules}{}", GATEWAYS.map(gateway).concat()))
}

/// A part of the large file, for clients that ask for it many times.
const PART: usize = 100_000;
/// It asks for the part eight times at once, and shows the hash of each.
const PAGE: &str = "<!DOCTYPE html><title>wait</title><script>\n\
    const hash = async (number) => {\n\
      const answer = await fetch('part?' + number);\n\
      const digest = await crypto.subtle.digest('SHA-256', await answer.arrayBuffer());\n\
      return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');\n\
    };\n\
    Promise.all([...Array(8).keys()].map(hash)).then((all) => { document.title = all.join(' '); });\n\
    </script>\n";

struct Client {
    /// For a shell. `PROXY` stands where options name a proxy, `SITE` for the server, `FOLDER` for a folder of its own.
    command: &'static str,
    /// The options that name it; `None`: it knows of no proxies.
    proxy: Option<&'static str>,
    /// What is printed then: `LARGE` and `PART` are hashes of the files, `BYTES` are forty parts.
    shown: &'static [&'static str],
    /// Requests that the gateway carries for it.
    carried: u64,
    /// Whether it asks for nothing else by itself.
    is_quiet: bool,
}

const CURL: &str = "curl PROXY -sS --max-time 60 -o got SITE/large && sha256sum got";
const WGET: &str = "wget PROXY -q -t 1 -O got SITE/large && sha256sum got";
/// The rest of a file of which the beginning is there.
const WGET_REST: &str = "cp ../www/part got && wget PROXY -q -t 1 -c -O got SITE/large && sha256sum got";
const WGET_PROXY: Option<&str> = Some("-e http_proxy=http://10.81.1.1:3128");
const LFTP: &str = "lftp -c 'PROXY get SITE/large -o got' && sha256sum got";
const AB: &str = "ab -q -n 40 -c 8 PROXY SITE/part";
const AB_KEEPS: &str = "ab -q -k -n 40 -c 8 PROXY SITE/part";
const AB_PROXY: Option<&str> = Some("-X 10.81.1.1:3128");
const H2LOAD: &str = "h2load --h1 -n 40 -c 8 PROXY SITE/part";
/// Requests that do not wait for the answers before them.
const H2LOAD_PIPELINES: &str = "h2load --h1 -n 40 -c 4 -m 5 PROXY SITE/part";
const BROWSER: &str = "$(command -v chromium || command -v chromium-browser || command -v google-chrome) --headless=new --no-sandbox \
    --disable-gpu --user-data-dir=FOLDER/profile --no-first-run --disable-background-networking --disable-component-update \
    --unsafely-treat-insecure-origin-as-secure=SITE --virtual-time-budget=10000 --dump-dom PROXY SITE/page.html";

#[rustfmt::skip]
const CLIENTS: [Client; 9] = [
    Client { command: CURL, proxy: Some("-x http://10.81.1.1:3128"), shown: &["LARGE"], carried: 1, is_quiet: true },
    Client { command: WGET, proxy: WGET_PROXY, shown: &["LARGE"], carried: 1, is_quiet: true },
    Client { command: WGET_REST, proxy: WGET_PROXY, shown: &["LARGE"], carried: 1, is_quiet: true },
    Client { command: LFTP, proxy: Some("set http:proxy http://10.81.1.1:3128;"), shown: &["LARGE"], carried: 1, is_quiet: true },
    Client {
        command: AB, proxy: AB_PROXY, carried: 40, is_quiet: true,
        shown: &["Complete requests:      40\n", "Failed requests:        0\n", "HTML transferred:       BYTES bytes\n"],
    },
    Client {
        command: AB_KEEPS, proxy: AB_PROXY, carried: 40, is_quiet: true,
        shown: &["Keep-Alive requests:    40\n", "Failed requests:        0\n", "HTML transferred:       BYTES bytes\n"],
    },
    Client { command: H2LOAD, proxy: None, shown: &["40 succeeded, 0 failed, 0 errored", "40 2xx", "(BYTES) data"], carried: 40, is_quiet: true },
    Client { command: H2LOAD_PIPELINES, proxy: None, shown: &["40 succeeded, 0 failed, 0 errored", "40 2xx", "(BYTES) data"], carried: 40, is_quiet: true },
    // It asks its maker for things, too, which is refused.
    Client {
        command: BROWSER, proxy: Some("--proxy-server=http://10.81.1.1:3128"), carried: 9, is_quiet: false,
        shown: &["<title>PART PART PART PART PART PART PART PART</title>"],
    },
];

pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A number of a gateway in `status`.
pub(crate) fn counted(bed: &Bed, gateway: &str, what: &str) -> u64 {
    let status = bed.json(&["status"]);
    let all = status["gateways"].as_array().unwrap();
    let found = all.iter().find(|it: &&Value| it["name"] == gateway).unwrap();
    found[what].as_u64().unwrap()
}

/// Runs a client on the host inside, and looks at what it has got and what the gateway has counted.
fn expect(bed: &Bed, client: &Client, gateway: &str, proxy: &str, hashes: &[String; 2]) {
    let folder = tempfile::tempdir_in(bed.folder.path()).unwrap();
    let at = folder.path().display().to_string();
    let command = client
        .command
        .replace("PROXY", proxy)
        .replace("SITE", "http://10.81.2.2:8080")
        .replace("FOLDER", &at);
    let count = |what| counted(bed, gateway, what);
    let [carried, failed, refused] = ["carried", "failed", "refused"].map(count);
    let script = format!("cd {at} && HOME={at} timeout 100 sh -c \"$0\"");
    let said = namespace::said(&bed.inside("in", || namespace::attempt("sh", &["-c", &script, &command])));
    let what = format!("{gateway}: {command}: {said}");
    for words in client.shown {
        let words = words
            .replace("LARGE", &hashes[0])
            .replace("PART", &hashes[1])
            .replace("BYTES", &(40 * PART).to_string());
        assert!(said.contains(&words), "{words} is not in {what}");
    }
    until(&format!("the gateway has carried {what}"), || count("carried") >= carried + client.carried);
    assert_eq!(count("failed"), failed, "{what}");
    assert!(count("refused") == refused || !client.is_quiet, "{what}");
}

#[test]
fn needs_root_clients_that_people_have_get_the_same_through_gateways() {
    let bed = Bed::new();
    let _nginx = nginx(&bed);
    fs::write(bed.folder.path().join("www/part"), &large()[..PART]).unwrap();
    fs::write(bed.folder.path().join("www/page.html"), PAGE).unwrap();
    let _firewall = bed.up(&policy(&bed, "", ""), "auto");
    for gateway in ["explicit", "transparent"] {
        until("the gateway is up", || is_up(&bed, gateway));
    }
    let hashes = [hash(&large()), hash(&large()[..PART])];
    for client in &CLIENTS {
        if let Some(proxy) = client.proxy {
            expect(&bed, client, "explicit", proxy, &hashes);
        }
        expect(&bed, client, "transparent", "", &hashes);
    }
}

pub(crate) fn is_up(bed: &Bed, gateway: &str) -> bool {
    let status = bed.json(&["status"]);
    status["gateways"].as_array().unwrap().iter().any(|it| it["name"] == gateway && it["is_up"] == true)
}
