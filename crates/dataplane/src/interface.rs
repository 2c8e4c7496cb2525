//! What kind of link an interface is: whether its packets come with Ethernet headers, and whether it is known where in a frame their IP
//! header begins. Read a few bytes too late, a packet would be judged by bytes that whoever sent it chose. Pure.

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The kind of its link: `ARPHRD_*` of Linux.
    pub kind: u16,
    /// The same in a word, for example `Ppp`.
    pub kind_name: String,
    /// Which part of Linux made it, for example `wireguard`; `None` for most network cards.
    pub made_by: Option<String>,
    /// Of a tunnel, whether it has one other end, so that a packet needs no route to be sent into it.
    pub has_one_remote: bool,
    /// Whether it is up, and so can receive.
    pub is_up: bool,
    /// Whether it was made to receive frames for other machines, by its flag (`IFF_PROMISC`). Programs that look on (tcpdump) do so without the
    /// flag, and only for as long as they run.
    pub receives_all: bool,
    /// The longest packet that it sends, in bytes with the IP header; `None` if the kernel does not say.
    pub mtu: Option<u32>,
}

/// `ARPHRD_ETHER`.
const ETHERNET: u16 = 1;
/// `ARPHRD_LOOPBACK`, whose frames have Ethernet headers too.
const LOOPBACK: u16 = 772;
/// `ARPHRD_PPP`.
const PPP: u16 = 512;
/// `ARPHRD_NONE`.
const NONE: u16 = 0xfffe;
/// `ARPHRD_TUNNEL`, `_TUNNEL6`, `_SIT`, `_IPGRE`, `_IP6GRE`, with who makes them.
const TUNNELS: [(u16, &str); 5] =
    [(768, "ipip"), (769, "ip6tnl"), (776, "sit"), (778, "gre"), (823, "ip6gre")];

impl Interface {
    /// Whether it leads from the machine to itself.
    pub fn is_loopback(&self) -> bool {
        self.kind == LOOPBACK
    }

    /// Whether its packets begin with their IP header, where the firewall is asked. Others of `ARPHRD_NONE` (xfrm, for one) leave the headers
    /// of what a packet came in before it, and gre does so without a remote.
    pub fn is_layer_3(&self) -> bool {
        let made_by = self.made_by.as_deref();
        self.is_tunnel() && self.has_one_remote
            || self.kind == PPP && made_by.is_none_or(|name| name == "ppp")
            || self.kind == NONE && made_by.is_some_and(|name| ["tun", "wireguard"].contains(&name))
    }

    fn is_tunnel(&self) -> bool {
        TUNNELS.iter().any(|(kind, name)| *kind == self.kind && self.made_by.as_deref() == Some(name))
    }

    /// Why the firewall cannot judge what comes by this interface; `None` if it can.
    pub fn unfit(&self) -> Option<String> {
        if [ETHERNET, LOOPBACK].contains(&self.kind) || self.is_layer_3() {
            return None;
        }
        let (name, kind, word) = (&self.name, self.kind, &self.kind_name);
        if self.is_tunnel() {
            return Some(format!(
                "`{name}` is a tunnel without one remote (type {kind}, {word}), and the firewall forwards only into tunnels with a \
                 `remote`: give it one, or let the kernel forward (`forwarding = \"kernel\"`)"
            ));
        }
        Some(format!(
            "`{name}` is a link of a kind that the firewall does not read (type {kind}, {word}): it reads Ethernet, tun, WireGuard, PPP, \
             ipip, sit, gre, ip6tnl and ip6gre; put no interface like it into a zone, or let the kernel forward \
             (`forwarding = \"kernel\"`)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_ethernet_layer_3_or_unfit() {
        for (kind, made_by, has_one_remote, expected) in [
            (ETHERNET, "", false, "ethernet"),
            (ETHERNET, "gretap", true, "ethernet"),
            (LOOPBACK, "", false, "ethernet"),
            (PPP, "", false, "layer 3"),
            (PPP, "ppp", false, "layer 3"),
            (PPP, "hdlc", false, "unfit"),
            (NONE, "tun", false, "layer 3"),
            (NONE, "wireguard", false, "layer 3"),
            // Their packets come with the headers of what they came in, or with none: nobody has looked.
            (NONE, "xfrm", false, "unfit"),
            (NONE, "gre", true, "unfit"),
            (NONE, "", false, "unfit"),
            (768, "ipip", true, "layer 3"),
            (768, "ipip", false, "unfit"),
            (768, "vti", true, "unfit"),
            (769, "ip6tnl", true, "layer 3"),
            (776, "sit", true, "layer 3"),
            (776, "sit", false, "unfit"),
            (778, "gre", true, "layer 3"),
            (778, "gre", false, "unfit"),
            (823, "ip6gre", true, "layer 3"),
            (823, "ip6gre", false, "unfit"),
            // _RAWIP, _INFINIBAND.
            (519, "", false, "unfit"),
            (519, "tun", false, "unfit"),
            (32, "", false, "unfit"),
        ] {
            let link = Interface {
                index: 1,
                name: "x0".to_owned(),
                kind,
                kind_name: "?".to_owned(),
                made_by: Some(made_by).filter(|name| !name.is_empty()).map(str::to_owned),
                has_one_remote,
                is_up: true,
                receives_all: false,
                mtu: None,
            };
            let found = match (link.unfit(), link.is_layer_3()) {
                (Some(_), false) => "unfit",
                (None, true) => "layer 3",
                (None, false) => "ethernet",
                (Some(_), true) => "both",
            };
            assert_eq!(found, expected, "{kind} {made_by} {has_one_remote}");
        }
    }
}
