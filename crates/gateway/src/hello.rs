//! The name that a client of TLS asks for, in the first message that it sends (RFC 8446 section 4.1.2, RFC 6066 section 3). Nothing is decrypted.

/// What the first bytes of a tunnel are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// They are not complete.
    More,
    /// A ClientHello, with the name that it has.
    Name(Option<String>),
    /// Something else than TLS.
    Other,
}

/// Bytes of a ClientHello at most that are waited for.
pub const LONGEST: usize = 16 * 1024;

/// A reader of bytes; `None` where they end.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        self.take(bytes).map(|taken| taken.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    /// What follows its own length of so many bytes.
    fn vector(&mut self, bytes: usize) -> Option<Bytes<'a>> {
        let length = self.number(bytes)?;
        self.take(length).map(Bytes)
    }
}

/// Reads what a tunnel begins with. A hello that is cut into several records is put together.
pub fn read(bytes: &[u8]) -> Hello {
    let mut message = Vec::new();
    let mut records = Bytes(bytes);
    loop {
        // Records of a byte each would have all that came before read again for every byte.
        if bytes.len() - records.0.len() > LONGEST {
            return Hello::Other;
        }
        let Some(kind) = records.number(1) else { return Hello::More };
        if kind != 22 {
            return Hello::Other;
        }
        match records.number(2) {
            None => return Hello::More,
            Some(version) if version >> 8 == 3 => {}
            Some(_) => return Hello::Other,
        }
        match records.number(2) {
            None => return Hello::More,
            Some(length) if length == 0 || length > LONGEST => return Hello::Other,
            Some(length) => match records.take(length) {
                Some(part) => message.extend_from_slice(part),
                None => return if bytes.len() > LONGEST { Hello::Other } else { Hello::More },
            },
        }
        let mut handshake = Bytes(&message);
        match (handshake.number(1), handshake.number(3)) {
            (Some(1), Some(length)) if length <= LONGEST => {
                if let Some(body) = handshake.take(length) {
                    return name(body).map_or(Hello::Other, Hello::Name);
                }
            }
            (Some(1) | None, None) => {}
            _ => return Hello::Other,
        }
    }
}

/// The name in a ClientHello; `None` if it is none.
fn name(body: &[u8]) -> Option<Option<String>> {
    let mut body = Bytes(body);
    body.take(2 + 32)?;
    body.vector(1)?;
    body.vector(2)?;
    body.vector(1)?;
    if body.0.is_empty() {
        return Some(None);
    }
    let mut extensions = body.vector(2)?;
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let mut content = extensions.vector(2)?;
        if kind != 0 {
            continue;
        }
        let mut names = content.vector(2)?;
        let is_host_name = names.number(1)? == 0;
        let text = std::str::from_utf8(names.vector(2)?.0).ok()?;
        // One name of one kind, and no second list of names: two readers might take different ones.
        if found.is_some() || !is_host_name || !names.0.is_empty() || !content.0.is_empty() {
            return None;
        }
        found = Some(text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase());
    }
    body.0.is_empty().then_some(found)
}
