//! The rules of the machine itself in the policies that the firewall writes (`rampart init`, `factory-reset`): its administrators get in, it gets its
//! addresses, and it may ask. Text alone; decides nothing about who that is.

use std::fmt::Write as _;

/// A rule of a policy, with a comment that says why.
pub(crate) struct Rule<'r> {
    pub(crate) comment: &'r str,
    pub(crate) name: &'r str,
    pub(crate) from: &'r [&'r str],
    pub(crate) to: &'r [&'r str],
    pub(crate) source: Option<String>,
    /// Empty for every service.
    pub(crate) services: &'r [&'r str],
}

/// What a network announces to its hosts.
pub(crate) const LEARN: [&str; 3] = ["dhcp", "dhcpv6", "neighbour-discovery"];
const SELF: &[&str] = &["self"];

impl<'r> Rule<'r> {
    pub(crate) fn new(
        comment: &'r str,
        name: &'r str,
        from: &'r [&'r str],
        to: &'r [&'r str],
        services: &'r [&'r str],
    ) -> Self {
        Self { comment, name, from, to, source: None, services }
    }

    /// Those who manage the machine from these zones get in; `ssh` is what sshd's ports are called.
    pub(crate) fn manage(zones: &'r [&'r str], ssh: &'r [&'r str]) -> Self {
        let comment = "Management. If you know from where, name those addresses in a `source` of this rule.";
        Self::new(comment, "manage", zones, SELF, ssh)
    }

    /// The machine learns its addresses in these zones.
    pub(crate) fn learn(zones: &'r [&'r str]) -> Self {
        let comment = "What IPv6 needs on every link, router advertisements included, and DHCP: the network gives this machine its addresses.";
        Self::new(comment, "our-addresses", zones, SELF, &LEARN)
    }

    /// The machine asks in these zones.
    pub(crate) fn ask(zones: &'r [&'r str]) -> Self {
        Self::new("What this machine asks for itself.", "firewall-out", SELF, zones, &[])
    }

    pub(crate) fn write(&self, text: &mut String) {
        let Self { comment, name, from, to, source, services } = self;
        let (from, to) = (strings(from.iter()), strings(to.iter()));
        // A String takes everything.
        let _ = write!(text, "\n# {comment}\n[[rules]]\nname = \"{name}\"\nfrom = {from}\nto = {to}\n");
        if let Some(source) = source {
            let _ = writeln!(text, "source = \"{source}\"");
        }
        if !services.is_empty() {
            let _ = writeln!(text, "service = {}", strings(services.iter()));
        }
        text.push_str("action = \"allow\"\n");
    }
}

/// All that a machine needs for itself in zones from which it is managed.
pub(crate) fn write(zones: &[&str], ssh: &[&str], text: &mut String) {
    let reachable = Rule::new("Whether it is there may be asked.", "reachable", zones, SELF, &["ping"]);
    for rule in [Rule::manage(zones, ssh), reachable, Rule::learn(zones), Rule::ask(zones)] {
        rule.write(text);
    }
}

fn quoted(text: &str) -> String {
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", c as u32),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

/// Strings as TOML has them. The kernel lets interfaces have nearly any name: all but spaces, `/` and `:` (dev_valid_name() in net/core/dev.c).
pub(crate) fn strings(all: impl IntoIterator<Item = impl ToString>) -> String {
    let quoted: Vec<String> = all.into_iter().map(|it| quoted(&it.to_string())).collect();
    match quoted.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
