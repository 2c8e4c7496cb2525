//! Fields of a head, and what of them ends at each hop (RFC 9110 section 7.6.1).

use super::Fault;

/// A field as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name: a token.
    pub name: String,
    /// Its value without blanks around it: no control character but the tab.
    pub value: Vec<u8>,
}

impl Field {
    /// Whether it has this name, which is written in small letters.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Whether it has this name for programs that get fields as variables, which makes `X_Real.IP` of `x-real-ip`.
    pub fn means(&self, name: &str) -> bool {
        self.name.len() == name.len() && begins(&self.name, name)
    }
}

/// The fields of a head, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<Field>);

/// Fields that end here whether `Connection` names them or not.
const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields that `Connection` must not name: a server that does not see them takes the request for another one, or for another client's.
const NOT_TO_NOMINATE: [&str; 12] = [
    "authorization",
    "cache-control",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "expect",
    "host",
    "range",
    "via",
    "x-forwarded-for",
];

/// Fields that say who the client is, or how it came, which no client says itself; besides all that begin with [`FORWARDED`].
const OF_THE_CLIENT: [&str; 11] = [
    "forwarded",
    "x-real-ip",
    "client-ip",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-originating-ip",
    "x-remote-ip",
    "x-remote-addr",
    "cf-connecting-ip",
    // To a program that is started with fields as variables this is `HTTP_PROXY`: the proxy that it is to ask itself (CVE-2016-5385).
    "proxy",
];
const FORWARDED: &str = "x-forwarded-";

impl Fields {
    /// Those of a name, which is written in small letters.
    pub fn all(&self, name: &'static str) -> impl Iterator<Item = &Field> {
        self.0.iter().filter(move |field| field.is(name))
    }

    /// The one of a name, if it is there.
    ///
    /// # Errors
    /// It is there more than once: this fault.
    pub fn one(&self, name: &'static str, twice: Fault) -> Result<Option<&Field>, Fault> {
        let mut found = self.all(name);
        let first = found.next();
        if found.next().is_some() { Err(twice) } else { Ok(first) }
    }

    /// What `Connection` names, in small letters.
    ///
    /// # Errors
    /// It names what every server must see.
    pub fn nominated(&self) -> Result<Vec<String>, Fault> {
        let mut names = Vec::new();
        for field in self.all("connection").chain(self.all("proxy-connection")) {
            let text = std::str::from_utf8(&field.value).map_err(|_| Fault::malformed("connection"))?;
            for name in text.split(',').map(|name| name.trim_matches([' ', '\t'])) {
                if name.is_empty() {
                    continue;
                }
                if !name.bytes().all(is_token_byte) {
                    return Err(Fault::malformed("connection"));
                }
                let name = name.to_ascii_lowercase();
                if NOT_TO_NOMINATE.contains(&name.as_str()) {
                    return Err(Fault::malformed("nominated-field"));
                }
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Whether `Connection` has an option.
    pub fn has_option(nominated: &[String], option: &str) -> bool {
        nominated.iter().any(|name| name == option)
    }

    /// What goes on to the other side. The lengths of the body are not among it, because the gateway writes them itself.
    pub fn end_to_end<'a>(&'a self, nominated: &'a [String]) -> impl Iterator<Item = &'a Field> {
        self.0.iter().filter(move |field| {
            let ends_here = HOP_BY_HOP.iter().any(|name| field.is(name)) || field.is("content-length");
            !ends_here && !nominated.iter().any(|name| field.is(name))
        })
    }
}

/// Whether a field says who the client is.
pub fn is_of_the_client(field: &Field) -> bool {
    begins(&field.name, FORWARDED) || OF_THE_CLIENT.iter().any(|name| field.means(name))
}

/// Whether a name begins with another that is written in small letters, where whatever is neither letter nor digit is a dash.
fn begins(name: &str, with: &str) -> bool {
    let same = |(one, other): (u8, u8)| match other {
        b'-' => !one.is_ascii_alphanumeric(),
        other => one.eq_ignore_ascii_case(&other),
    };
    name.len() >= with.len() && name.bytes().zip(with.bytes()).all(same)
}

/// A byte of a token (RFC 9110 section 5.6.2).
pub fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
