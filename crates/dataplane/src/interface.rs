//! What kind of link an interface is. The firewall reads Ethernet, and nothing else: a packet of a link without Ethernet headers (tun,
//! wireguard, ppp, gre) would be read fourteen bytes too late, and judged by bytes that whoever sent it chose. Pure.

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
    /// Whether it is up, and so can receive.
    pub is_up: bool,
}

/// `ARPHRD_ETHER`.
const ETHERNET: u16 = 1;
/// `ARPHRD_LOOPBACK`, whose frames have Ethernet headers too.
const LOOPBACK: u16 = 772;

impl Interface {
    /// Whether it leads from the machine to itself.
    pub fn is_loopback(&self) -> bool {
        self.kind == LOOPBACK
    }

    /// Why the firewall cannot judge what comes by this interface; `None` if it can.
    pub fn unfit(&self) -> Option<String> {
        if [ETHERNET, LOOPBACK].contains(&self.kind) {
            return None;
        }
        let (name, kind, word) = (&self.name, self.kind, &self.kind_name);
        Some(format!(
            "`{name}` is a link without Ethernet headers (type {kind}, {word}), and the firewall reads only Ethernet: put no \
             interface like it into a zone; where there is a choice, make it a tap, gretap or veth"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_with_ethernet_headers_are_fit() {
        // ARPHRD_ETHER, _LOOPBACK; _PPP, _TUNNEL, _TUNNEL6, _SIT, _IPGRE, _IP6GRE, _NONE (tun, wireguard), _RAWIP, _INFINIBAND.
        for (kind, fits) in [
            (1, true),
            (772, true),
            (512, false),
            (768, false),
            (769, false),
            (776, false),
            (778, false),
            (823, false),
            (0xfffe, false),
            (519, false),
            (32, false),
        ] {
            let link =
                Interface { index: 1, name: "x0".to_owned(), kind, kind_name: "?".to_owned(), is_up: true };
            assert_eq!(link.unfit().is_none(), fits, "{kind}");
        }
    }
}
