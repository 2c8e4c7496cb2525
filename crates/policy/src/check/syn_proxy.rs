//! Whether SYNs are answered for servers, by the settings and by rules: where that cannot be is an error.

use crate::model::{Action, Effect, SELF, ZoneSet};
use crate::service::{self, ServiceSet};
use crate::settings::{Forwarding, SynProxy};
use toml_reader::{Collector, Section};

const KEY: &str = "syn_proxy";

/// What is wrong, and what to do.
type Refusal = (&'static str, &'static str);

/// Of `[settings]`.
pub(super) fn of_settings(
    root: &Section<'_>,
    section: &Section<'_>,
    forwarding: Forwarding,
    c: &mut Collector<'_>,
) -> Option<SynProxy> {
    let said = section.choice(KEY, &SynProxy::NAMES, c)?;
    let refusal = (said != SynProxy::Off).then(|| nowhere(root, forwarding)).flatten();
    report(section, refusal, c);
    Some(said)
}

/// What a rule says of its own connections; `Some(None)` if it leaves that to the settings.
pub(super) fn of_rule(
    root: &Section<'_>,
    section: &Section<'_>,
    forwarding: Forwarding,
    effect: Option<&Effect>,
    zones: [Option<ZoneSet>; 2],
    service: Option<&ServiceSet>,
    c: &mut Collector<'_>,
) -> Option<Option<SynProxy>> {
    if section.value(KEY).is_none() {
        return Some(None);
    }
    let said = section.choice(KEY, &SynProxy::NAMES, c)?;
    let refusal = if effect.is_some_and(|effect| effect.action != Action::Allow) {
        Some(("`syn_proxy` needs a rule that allows", "take `syn_proxy` out, or write action = \"allow\""))
    } else if said == SynProxy::Off {
        None
    } else if section.value("gateway").is_some() {
        let what = "a gateway answers the SYNs of its connections itself";
        Some((what, "take `syn_proxy` out, or `gateway`"))
    } else if zones.iter().flatten().any(|zones| *zones == 1 << SELF) {
        let what = "SYNs of the firewall's own connections are answered by the kernel";
        Some((what, "take `syn_proxy` out: it is for connections that are forwarded"))
    } else if service.is_some_and(|service| !has_tcp(service)) {
        let what = "`syn_proxy` is about TCP, and the rule has none";
        Some((what, "take `syn_proxy` out, or write a service of TCP: \"tcp/80\""))
    } else {
        nowhere(root, forwarding)
    };
    let is_refused = refusal.is_some();
    report(section, refusal, c);
    (!is_refused).then_some(Some(said))
}

/// Where connections are not the firewall's own to forward, it cannot take part in them.
fn nowhere(root: &Section<'_>, forwarding: Forwarding) -> Option<Refusal> {
    if forwarding == Forwarding::Kernel {
        let help = "leave `forwarding` out, or have the kernel do it: `SYNPROXY` of iptables, `synproxy` of nftables";
        return Some(("where the kernel forwards, this firewall answers no SYNs", help));
    }
    let has_bridges = root.value("bridges").is_some();
    has_bridges.then_some(("this version answers no SYNs on bridges", "take `syn_proxy` out, or the bridges"))
}

fn report(section: &Section<'_>, refusal: Option<Refusal>, c: &mut Collector<'_>) {
    if let Some((what, help)) = refusal {
        c.report(section.key_span(KEY), what, Some(help.to_owned()));
    }
}

fn has_tcp(service: &ServiceSet) -> bool {
    let (first, last) = (service::key(service::TCP, 0), service::key(service::TCP, u16::MAX));
    let is_tcp = |(from, to): &(u32, u32)| *from <= last && first <= *to;
    service.parts().iter().any(|part| part.keys.ranges().iter().any(is_tcp))
}
