//! Addresses with their names, as `/etc/hosts` has them (hosts(5)): an address, the name that it has, other names. Reads no files.

use crate::gateways::HostEntry;
use std::net::IpAddr;

/// One line; `None` if there is nothing on it.
///
/// # Errors
/// It is neither an address with names nor a comment: why.
pub fn line(line: &str) -> Result<Option<HostEntry>, String> {
    let written = line.split('#').next().unwrap_or_default();
    let mut words = written.split_whitespace();
    let Some(address) = words.next() else { return Ok(None) };
    let shown = |word: &str| word.chars().filter(|it| !it.is_control()).take(60).collect::<String>();
    let address: IpAddr = address.parse().map_err(|_| format!("`{}` is no address", shown(address)))?;
    let mut names = Vec::new();
    for word in words {
        let name = word.strip_suffix('.').unwrap_or(word).to_ascii_lowercase();
        if !is_name(&name) {
            return Err(format!("`{}` is not the name of a host", shown(word)));
        }
        names.push(name);
    }
    if names.is_empty() {
        return Err(format!("the address {address} has no name"));
    }
    Ok(Some((address, names)))
}

/// All lines of a file.
///
/// # Errors
/// The number of the first line that cannot be understood, and why.
pub fn read(text: &str) -> Result<Vec<HostEntry>, (usize, String)> {
    // Some editors begin a file with a mark.
    let numbered = (1..).zip(text.strip_prefix('\u{feff}').unwrap_or(text).lines());
    numbered.filter_map(|(number, it)| line(it).map_err(|why| (number, why)).transpose()).collect()
}

/// Whether a text in small letters is a name of labels of letters, digits, `-` and `_`, and no address.
pub(crate) fn is_name(name: &str) -> bool {
    let is_good = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        (1..=63).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit()) || label.starts_with("0x");
    name.len() <= 253 && name.split('.').all(is_good) && !name.rsplit('.').next().is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_hosts() {
        for (text, expected) in [
            ("10.0.0.5 server.example.lan server", Ok("10.0.0.5 server.example.lan server")),
            ("  2001:db8::5\tWWW.Example.com. # the web", Ok("2001:db8::5 www.example.com")),
            ("10.0.0.5 _sip._tcp.example.lan", Ok("10.0.0.5 _sip._tcp.example.lan")),
            ("# authority example.lan", Ok("")),
            ("", Ok("")),
            ("10.0.0.5", Err("the address 10.0.0.5 has no name")),
            ("10.0.0.5 # server", Err("the address 10.0.0.5 has no name")),
            ("server 10.0.0.5", Err("`server` is no address")),
            ("fe80::1%eth0 server", Err("`fe80::1%eth0` is no address")),
            ("10.0.0.5 a..b", Err("`a..b` is not the name of a host")),
            ("10.0.0.5 10.0.0.6", Err("`10.0.0.6` is not the name of a host")),
            ("10.0.0.5 m\u{fc}ller.lan", Err("`m\u{fc}ller.lan` is not the name of a host")),
        ] {
            let found = line(text).map(|entry| {
                entry.map_or(String::new(), |(address, names)| format!("{address} {}", names.join(" ")))
            });
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
        assert_eq!(read("\u{feff}10.0.0.1 a\r\n").map(|entries| entries.len()), Ok(1));
        assert_eq!(read("\n10.0.0.1 a\n10.0.0.2\n"), Err((3, "the address 10.0.0.2 has no name".to_owned())));
    }
}
