//! Every key that a policy can have. The guide documents each one, and a test holds it to that.

use toml_reader::{Collector, Section};

/// A kind of table in a policy and its keys.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// How its header is written: `[settings]`, `[[rules]]`; empty for the top of the file.
    pub header: &'static str,
    /// The keys that it can have; empty where the user chooses them.
    pub keys: &'static [&'static str],
}

impl Table {
    /// The table of a key; other keys than its own are reported.
    pub(crate) fn section<'t>(
        self,
        parent: &Section<'t>,
        key: &'static str,
        c: &mut Collector<'_>,
    ) -> Option<Section<'t>> {
        Some(parent.section(key, self.header, c)?.only(self.keys, c))
    }

    /// The tables of `[[key]]`; other keys than their own are reported.
    pub(crate) fn sections<'t>(
        self,
        parent: &Section<'t>,
        key: &'static str,
        c: &mut Collector<'_>,
    ) -> Vec<Section<'t>> {
        parent.sections(key, c).into_iter().map(|section| section.only(self.keys, c)).collect()
    }
}

/// Where a key belongs that stands in a table without it; nothing where so many tables have it that it says nothing.
pub(crate) fn home(key: &str) -> Option<String> {
    let is_later = |table: &&Table| LATER.iter().any(|(_, _, later)| later.header == table.header);
    let tables = ALL.iter().filter(|table| !table.header.is_empty() && !is_later(table));
    let homes: Vec<&str> = tables.filter(|t| t.keys.contains(&key)).map(|t| t.header).collect();
    (1..=3).contains(&homes.len()).then(|| format!("it is a key of {}", homes.join(", ")))
}

macro_rules! tables {
    ($($name:ident $header:literal [$($key:literal),* $(,)?];)*) => {
        $(pub(crate) const $name: Table = Table { header: $header, keys: &[$($key),*] };)*
        /// All kinds of tables.
        pub const ALL: &[Table] = &[$($name),*];
    };
}

tables! {
    ROOT "" ["settings", "zones", "bridges", "objects", "services", "schedules", "rules", "defaults",
             "nat", "lists", "countries", "scans", "domains", "log", "gateways", "inspection", "protection"];
    SETTINGS "[settings]" ["forwarding", "flows", "half_open", "unanswered", "syn_proxy", "reverse_path", "log_rate", "timeouts",
                          "integrity"];
    TIMEOUTS "[settings.timeouts]" ["tcp_opening", "tcp_established", "tcp_closing", "tcp_reset", "udp", "icmp", "other", "unanswered"];
    INTEGRITY "[settings.integrity]" ["checksums", "tcp_flags", "land", "zones"];
    ZONE "[zones.NAME]" ["interfaces", "networks", "description"];
    BRIDGE "[bridges.NAME]" ["interfaces", "pass", "vlans"];
    OBJECT "[objects.NAME]" ["members", "except"];
    SERVICE "[services.NAME]" ["members", "source_port"];
    SCHEDULE "[schedules.NAME]" ["times", "time_zone", "from", "until", "except"];
    RULE "[[rules]]" ["name", "description", "from", "to", "source", "destination", "service", "source_port", "schedule",
                      "action", "log", "limit", "alert", "enabled", "gateway", "syn_proxy", "inspection"];
    LIMIT "[rules.limit]" ["rate", "burst", "connections", "per"];
    ALERT "[rules.alert]" ["count", "within", "per"];
    DEFAULT "[[defaults]]" ["from", "to", "action", "log"];
    NAT "[[nat]]" ["name", "description", "from", "to", "source", "destination", "service", "masquerade", "source_to", "ports",
                  "destination_to", "one_to_one", "prefix_to", "exempt", "answer_arp", "enabled", "mapping", "filtering"];
    LIST "[lists.NAME]" ["file", "command", "url", "entries", "except", "countries", "block", "require", "log", "broken", "refresh", "expires"];
    COUNTRIES "[countries]" ["file", "command", "url", "broken", "refresh"];
    DOMAINS "[domains]" ["grace"];
    SCANS "[scans]" ["ports", "hosts", "window", "block", "except"];
    LOG "[log]" ["journald", "syslog", "facility", "enterprise", "ipfix", "tls"];
    LOG_TLS "[log.tls]" ["ca", "name", "certificate", "key"];
    IPFIX "[log.ipfix]" ["to", "domain", "rate", "templates", "active_timeout"];
    GATEWAY "[gateways.NAME]" ["protocol", "mode", "listen", "servers", "rules", "reach", "ports", "connect_ports", "resolvers", "look_up",
                               "decisions", "forwarded_for", "connections", "connections_per_client", "head_bytes", "head_fields",
                               "head_time", "idle", "connect_time", "answer_time", "pooled", "data_ports", "to_servers",
                               "forward_to", "local", "views", "cache", "rate", "users_file", "client_names"];
    GATEWAY_RULE "[[gateways.NAME.rules]]" ["name", "description", "action", "source", "hosts", "hosts_file", "paths", "methods", "schedule",
                                            "largest_request", "largest_answer", "server_name", "log", "enabled", "types", "private_answers",
                                            "content_types",
                                            "users"];
    GATEWAY_VIEW "[[gateways.NAME.views]]" ["description", "source", "file", "entries"];
    INSPECTION "[inspection.NAME]" ["signatures", "files", "reputation", "action"];
    PROTECTION "[protection]" ["syn_flood", "syn_rate"];
}

/// Parts of the language that this version cannot carry out: the key at the top of the file, what messages call the part, and its
/// table.
pub(crate) const LATER: [(&str, &str, Table); 2] =
    [("inspection", "inspection", INSPECTION), ("protection", "flood protection", PROTECTION)];
