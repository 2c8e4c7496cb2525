//! Whether a request passes: the first rule that matches decides, and where none matches it is refused. No clock and no network here.

use crate::config::{Gateway, Mode, Rule};
use crate::hosts::HostSet;
use crate::http::Fault;
use crate::http::body::Length;
use crate::http::head::Request;
use crate::http::target::{self, Authority, Host, Path, Target};
use crate::users::Who;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Host and port, of which the port is known.
    pub authority: Authority,
    /// The port.
    pub port: u16,
    /// The path; `None` of `CONNECT` and `OPTIONS *`.
    pub path: Option<Path>,
    /// Where the server is, if that does not have to be looked up: a published one, or the one that a transparent client has asked for.
    pub server: Option<SocketAddr>,
    /// It wants a tunnel.
    pub is_tunnel: bool,
    /// Who asks, as far as that is known.
    pub who: Option<Who>,
}

impl Asked {
    /// `host:port` for people.
    pub fn host(&self) -> String {
        format!("{}:{}", self.authority.host, self.port)
    }
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It passes by a rule, a place in [`Gateway::rules`].
    Allow(usize),
    /// It depends on who asks, by a rule, and that is not known.
    Authenticate(usize),
    /// It is refused, by a rule if one has decided.
    Refuse(Option<usize>, Fault),
}

/// Where a request is to go that came on a connection to `at`.
///
/// # Errors
/// This gateway is not for such requests.
pub fn asked(gateway: &Gateway, request: &Request, at: SocketAddr) -> Result<Asked, Fault> {
    let of_host = || request.host.clone().ok_or(Fault::malformed("no-host"));
    // HTTP/1.0 need not name a host, and is asked for by the address.
    let of_address = || Authority { host: Host::Address(at.ip()), port: Some(at.port()) };
    let of_transparent = || request.host.clone().unwrap_or_else(of_address);
    let (authority, path, is_tunnel) = match (&request.target, &gateway.mode) {
        (Target::Authority(_), Mode::Publish(_) | Mode::Transparent) => {
            return Err(Fault::with_status(405, "connect"));
        }
        (Target::Authority(authority), Mode::Explicit) => (authority.clone(), None, true),
        (Target::Absolute(authority, path), _) => (authority.clone(), Some(path.clone()), false),
        (Target::Origin(path), Mode::Transparent) => (of_transparent(), Some(path.clone()), false),
        (Target::Asterisk, Mode::Transparent) => (of_transparent(), None, false),
        (Target::Origin(path), Mode::Publish(_)) => (of_host()?, Some(path.clone()), false),
        (Target::Asterisk, Mode::Publish(_)) => (of_host()?, None, false),
        // Whoever asks so takes the gateway for a server.
        (Target::Origin(_) | Target::Asterisk, Mode::Explicit) => {
            return Err(Fault::malformed("not-to-a-proxy"));
        }
    };
    let port = authority.port.unwrap_or(80);
    let server = match &gateway.mode {
        Mode::Explicit => None,
        // A client that says one port and connects to another deceives somebody.
        Mode::Transparent if port != at.port() => return Err(Fault::with_status(403, "other-port")),
        Mode::Transparent if is_other(&authority.host, at.ip()) => {
            return Err(Fault::with_status(403, "other-address"));
        }
        Mode::Transparent => Some(at),
        Mode::Publish(servers) => {
            let name = authority.host.to_string();
            let own_port = gateway.listen.port();
            let found =
                servers.iter().find(|server| server.host == name).filter(|_| port == own_port || port == 80);
            Some(found.ok_or(Fault::with_status(421, "not-published"))?.to)
        }
    };
    Ok(Asked { authority, port, path, server, is_tunnel, who: None })
}

/// Whether a host is an address, and another one.
fn is_other(host: &Host, at: IpAddr) -> bool {
    matches!(host, Host::Address(address) if *address != at)
}

/// Whether what is asked for passes.
pub fn decide(gateway: &Gateway, client: IpAddr, method: &str, asked: &Asked) -> Decision {
    let ports = if asked.is_tunnel { &gateway.connect_ports } else { &gateway.ports };
    if !matches!(gateway.mode, Mode::Publish(_)) && !ports.contains(&asked.port) {
        return Decision::Refuse(None, Fault::with_status(403, "port"));
    }
    let user = asked.who.as_ref().and_then(|who| gateway.users.as_ref()?.proved(who));
    let host = match &asked.authority.host {
        Host::Name(name) => Cow::Borrowed(name.as_str()),
        Host::Address(address) => Cow::Owned(address.to_string()),
    };
    let subject = Subject { client, method, asked, host };
    let found = gateway.rules.iter().position(|rule| {
        matches(gateway, rule, &subject) && user.is_none_or(|user| user.is_among(&rule.users))
    });
    match found {
        None => Decision::Refuse(None, Fault::with_status(403, "no-rule")),
        // Whoever it is, a rule further down must not decide before this one could.
        Some(place) if user.is_none() && !gateway.rules[place].users.is_empty() => {
            Decision::Authenticate(place)
        }
        Some(place) if gateway.rules[place].allow => Decision::Allow(place),
        Some(place) => Decision::Refuse(Some(place), Fault::with_status(403, "rule-deny")),
    }
}

/// Fields that some servers believe about the method, and about the path.
const METHOD_FIELDS: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];
const PATH_FIELDS: [&str; 2] = ["x-original-url", "x-rewrite-url"];

/// The decision about a request, if each way to read it that servers are known for leads to the same one.
pub fn alike(
    gateway: &Gateway,
    client: IpAddr,
    request: &Request,
    asked: &Asked,
    decision: Decision,
) -> Decision {
    if matches!(decision, Decision::Refuse(..)) {
        return decision;
    }
    let refused = |reason| Decision::Refuse(None, Fault::with_status(403, reason));
    let of_path = |path: Path| Asked { path: Some(path), ..asked.clone() };
    let without = asked.path.as_ref().and_then(|path| Some((path.without_parameters()?, path)));
    if let Some((judged, path)) = without
        && decide(gateway, client, &request.method, &of_path(Path { judged, ..path.clone() })) != decision
    {
        return refused("path-parameters");
    }
    for field in &request.fields.0 {
        let text = String::from_utf8_lossy(&field.value);
        if METHOD_FIELDS.iter().any(|name| field.means(name))
            && decide(gateway, client, &text.to_ascii_uppercase(), asked) != decision
        {
            return refused("method-override");
        }
        if PATH_FIELDS.iter().any(|name| field.means(name)) {
            let other = Some(&text).filter(|text| text.starts_with('/')).map(|text| target::path(text));
            let Some(Ok(path)) = other else { return refused("path-override") };
            if decide(gateway, client, &request.method, &of_path(path)) != decision {
                return refused("path-override");
            }
        }
    }
    decision
}

/// What a client of HTTP hears that has to say who it is (RFC 9110 section 11).
pub fn challenge(gateway: &Gateway, reason: &'static str) -> Fault {
    let status = match gateway.mode {
        Mode::Explicit => 407,
        Mode::Publish(_) => 401,
        // It knows of no gateway that could ask.
        Mode::Transparent => 403,
    };
    Fault::with_status(status, reason)
}

/// Whether a body of such a length may begin: one in chunks is counted as it comes.
pub fn fits(length: Length, most: Option<u64>) -> bool {
    match (length, most) {
        (Length::Bytes(length), Some(most)) => length <= most,
        _ => true,
    }
}

/// What a rule is asked about, with the host as patterns are written.
struct Subject<'a> {
    client: IpAddr,
    method: &'a str,
    asked: &'a Asked,
    host: Cow<'a, str>,
}

/// Whether a rule is about it. What takes longest is looked at last, because most rules are about something else.
fn matches(gateway: &Gateway, rule: &Rule, subject: &Subject<'_>) -> bool {
    let Subject { client, method, asked, host } = subject;
    let is_name = matches!(asked.authority.host, Host::Name(_));
    let is_in_set = |set: &HostSet| if is_name { set.has_name(host) } else { set.has(host) };
    let by_source = || rule.source.as_ref().is_none_or(|addresses| addresses.has(*client));
    let by_method = || rule.methods.is_empty() || rule.methods.iter().any(|known| known == method);
    let by_host = || gateway.is_about(rule, |pattern| is_host(pattern, host, is_name), is_in_set);
    let by_path = || {
        let judged = asked.path.as_ref().map(|path| path.judged.as_str());
        rule.paths.is_empty()
            || judged.is_some_and(|path| rule.paths.iter().any(|pattern| glob(pattern, path)))
    };
    // What a tunnel carries has no type that could be seen.
    let by_kind = rule.content_types.is_empty() || !asked.is_tunnel;
    by_kind && by_source() && by_method() && by_host() && by_path()
}

/// `*.example.com` is every name below `example.com`, and not that itself.
fn is_host(pattern: &str, host: &str, is_name: bool) -> bool {
    match pattern.strip_prefix('*') {
        Some("") => true,
        Some(ending) => is_name && host.len() > ending.len() && host.ends_with(ending),
        None => pattern == host,
    }
}

/// Whether a text is what a pattern says, in which each `*` is anything. Takes at most the product of both lengths in steps.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, t));
            p += 1;
        } else if p < pattern.len() && pattern[p] == text[t] {
            p += 1;
            t += 1;
        } else if let Some((at, from)) = star {
            p = at + 1;
            t = from + 1;
            star = Some((at, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}
