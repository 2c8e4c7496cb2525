//! Addresses and ports in commands and replies: six numbers (RFC 959 section 4.1.2), and the extended form (RFC 2428).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// `10,0,0,1,4,210`, as `PORT` and the reply to `PASV` have it.
pub fn six_numbers(address: Ipv4Addr, port: u16) -> String {
    let [a, b, c, d] = address.octets();
    let [high, low] = port.to_be_bytes();
    format!("{a},{b},{c},{d},{high},{low}")
}

/// Reads six numbers and nothing else.
pub fn of_six_numbers(text: &[u8]) -> Option<SocketAddr> {
    let numbers: Vec<u8> =
        text.split(|byte| *byte == b',').map(|number| digits(number)?.parse().ok()).collect::<Option<_>>()?;
    let [a, b, c, d, high, low] = numbers[..] else { return None };
    Some((Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low])).into())
}

/// `|2|2001:db8::1|1234|`, as `EPRT` has it.
pub fn extended(at: SocketAddr) -> String {
    let family = if at.is_ipv4() { 1 } else { 2 };
    format!("|{family}|{}|{}|", at.ip(), at.port())
}

/// What `EPRT` may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// An address and a port.
    At(SocketAddr),
    /// A family of addresses that is not IPv4 or IPv6.
    OtherFamily,
}

/// Reads the argument of `EPRT`: the first character is what the fields are set apart by.
pub fn of_extended(text: &[u8]) -> Option<Extended> {
    let (apart, _) = text.split_first().filter(|(first, _)| (33..=126).contains(*first))?;
    let fields: Vec<&[u8]> = text.split(|byte| byte == apart).collect();
    let [b"", family, address, port, b""] = fields[..] else { return None };
    let family: u16 = digits(family)?.parse().ok()?;
    if !matches!(family, 1 | 2) {
        return Some(Extended::OtherFamily);
    }
    let address: IpAddr = std::str::from_utf8(address).ok()?.parse().ok()?;
    let port: u16 = digits(port)?.parse().ok()?;
    (address.is_ipv4() == (family == 1)).then(|| Extended::At(SocketAddr::new(address, port)))
}

/// The port in the reply to `PASV`. The address beside it is nobody's word but the server's, and never followed. Servers write around the numbers
/// what they like (RFC 1123 section 4.1.2.6).
pub fn of_passive(text: &[u8]) -> Option<u16> {
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b',';
    text.split(|byte| !is_number(byte)).find_map(of_six_numbers).map(|at| at.port())
}

/// The port in the reply to `EPSV`, `(|||PORT|)`.
pub fn of_extended_passive(text: &[u8]) -> Option<u16> {
    let start = text.iter().position(|byte| *byte == b'(')? + 1;
    let end = start + text[start..].iter().position(|byte| *byte == b')')?;
    let [a, b, c, port @ .., d] = &text[start..end] else { return None };
    let is_apart = [b, c, d].iter().all(|it| *it == a) && (33..=126).contains(a);
    digits(port).filter(|_| is_apart)?.parse().ok()
}

/// A number's digits: `parse` alone would take `+1`.
fn digits(text: &[u8]) -> Option<&str> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)
}
