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
    numbered(text).filter_map(|(number, it)| line(it).map_err(|why| (number, why)).transpose()).collect()
}

/// Lines with their numbers. Some editors begin a file with a mark.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.strip_prefix('\u{feff}').unwrap_or(text).lines())
}

/// All hosts of a list.
///
/// # Errors
/// As [`read`].
pub fn read_listed(text: &str) -> Result<Vec<String>, (usize, String)> {
    let mut found = Vec::new();
    for (number, line) in numbered(text) {
        found.extend(listed(line).map_err(|why| (number, why))?);
    }
    Ok(found)
}

/// The hosts that a line of a list of them names, each for itself and all names below it. Lists that are published have one of these forms: a name or
/// an address a line, with `*.` before it or not; lines as of `/etc/hosts`, whose address says that it leads nowhere; `||example.com^`.
///
/// # Errors
/// It is nothing of that: why.
fn listed(line: &str) -> Result<Vec<String>, String> {
    let is_of_adblock = line.starts_with(['!', '[']);
    let written = line.split('#').next().filter(|_| !is_of_adblock).unwrap_or_default();
    let words: Vec<&str> = written.split_whitespace().collect();
    let shown = |word: &str| word.chars().filter(|it| !it.is_control()).take(60).collect::<String>();
    let one = |word: &str| {
        let inner = word.strip_prefix("||").and_then(|it| it.strip_suffix('^')).unwrap_or(word);
        let inner = inner.strip_prefix("*.").unwrap_or(inner).to_ascii_lowercase();
        let name = inner.strip_suffix('.').unwrap_or(&inner);
        let address = name.parse::<IpAddr>().map(|it| it.to_canonical().to_string());
        address.ok().or_else(|| may_be_asked_for(name).then(|| name.to_owned()))
    };
    match words[..] {
        [] => Ok(Vec::new()),
        [word] => one(word).map(|it| vec![it]).ok_or_else(|| format!("`{}` is no host", shown(word))),
        [address, ref names @ ..] => {
            let plain = address.split('%').next().unwrap_or_default();
            if plain.parse::<IpAddr>().is_err() {
                return Err(format!("`{}` is no address, and a line has one host", shown(address)));
            }
            let read = names.iter().map(|it| one(it).ok_or_else(|| format!("`{}` is no host", shown(it))));
            let names: Vec<String> = read.collect::<Result<_, _>>()?;
            Ok(names.into_iter().filter(|it| !is_of_machines(it)).collect())
        }
    }
}

/// Whether it is a machine's name of itself, which such files begin with.
fn is_of_machines(name: &str) -> bool {
    !name.contains('.') || name == "localhost.localdomain" || name.parse::<IpAddr>().is_ok()
}

/// Whether somebody could ask for it: more than can be the name of a host, because lists of strangers are in use.
fn may_be_asked_for(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    let is_good = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(inner);
    name.len() <= 253 && name.split('.').all(is_good)
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
    fn lines_of_lists_of_hosts() {
        for (text, expected) in [
            ("casino.example", Ok("casino.example")),
            ("  *.Casino.Example.  # gambling", Ok("casino.example")),
            ("||ads.example^", Ok("ads.example")),
            ("0.0.0.0 ads.example tracker.example", Ok("ads.example tracker.example")),
            ("192.0.2.7", Ok("192.0.2.7")),
            ("2001:DB8::0:7", Ok("2001:db8::7")),
            ("-odd_.example", Ok("-odd_.example")),
            ("# a comment", Ok("")),
            ("! Title: of a list", Ok("")),
            ("[Adblock Plus 2.0]", Ok("")),
            ("", Ok("")),
            // As the file of a machine begins, which would end all names below `local`.
            ("127.0.0.1 localhost localhost.localdomain local", Ok("")),
            ("fe80::1%lo0 localhost", Ok("")),
            ("0.0.0.0 0.0.0.0", Ok("")),
            ("||ads.example^$third-party", Err("`||ads.example^$third-party` is no host")),
            ("@@||ads.example^", Err("`@@||ads.example^` is no host")),
            ("http://ads.example/", Err("`http://ads.example/` is no host")),
            ("ads.example tracker.example", Err("`ads.example` is no address, and a line has one host")),
            ("m\u{fc}ller.example", Err("`m\u{fc}ller.example` is no host")),
            ("*", Err("`*` is no host")),
            (".", Err("`.` is no host")),
            ("a..example", Err("`a..example` is no host")),
        ] {
            let found = listed(text).map(|names| names.join(" "));
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
        assert_eq!(
            read_listed("\u{feff}a.example\r\nb.example"),
            Ok(vec!["a.example".to_owned(), "b.example".to_owned()])
        );
        assert_eq!(read_listed("a.example\n*\n"), Err((2, "`*` is no host".to_owned())));
    }

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
