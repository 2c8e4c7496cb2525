//! What the firewall knows, as metrics in Prometheus' text format 0.0.4. Names have their unit and say what they count; a metric that has no
//! value now is still named, so that whoever writes a query finds it. Flows are not gone through: a scrape costs a few reads of counters.

use super::{Daemon, Moment, Refused};
use crate::api::{Drops, Export, GatewayStatus, Lists, RuleCount, Rules, Status};
use jiff::Timestamp;
use std::fmt::{Display, Write as _};
use std::fs;
use std::sync::Arc;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// The content type of the format.
pub(crate) const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Rules up to which each has metrics of its own; of more of them only sums are given, and their number.
const RULES_SHOWN: usize = 10_000;

/// How long an answer is given again: whoever asks more often does not make the firewall work.
const FRESH: Duration = Duration::from_secs(1);

/// The last answer.
#[derive(Default)]
pub(super) struct Rendered(std::sync::Mutex<Option<(Instant, Arc<str>)>>);

/// What a metric does.
#[derive(Clone, Copy)]
enum Kind {
    /// It only goes up while the daemon runs.
    Counter,
    Gauge,
}

/// Metrics as text.
#[derive(Default)]
struct Text(String);

/// A label with its value.
type Label<'l> = (&'l str, &'l str);

impl Text {
    /// A metric, before its samples.
    fn metric(&mut self, name: &str, kind: Kind, help: &str) -> Samples<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // A String takes everything.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Samples { text: &mut self.0, name: name.to_owned() }
    }

    /// A metric with one value.
    fn value(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.metric(name, kind, help).add(&[], value);
    }
}

/// Where samples of a metric go.
struct Samples<'t> {
    text: &'t mut String,
    name: String,
}

impl Samples<'_> {
    fn add(&mut self, labels: &[Label<'_>], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", quoted(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{}{labels} {value}", self.name);
    }
}

/// A label's value between its quotes.
fn quoted(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn seconds(at: Timestamp) -> f64 {
    at.as_millisecond() as f64 / 1_000.0
}

impl Daemon {
    /// The metrics, at most a second old.
    pub(crate) fn metrics(&self, now: Moment) -> Result<Arc<str>, Refused> {
        // Whoever comes meanwhile waits for the answer that is made.
        let mut rendered = self.rendered.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |made: &Instant| now.steady.saturating_duration_since(*made) < FRESH;
        if let Some((_, text)) = rendered.as_ref().filter(|(made, _)| is_fresh(made)) {
            // One that is down has none to give.
            self.with(|_| Ok(()))?;
            return Ok(Arc::clone(text));
        }
        let text: Arc<str> = self.render(now)?.into();
        *rendered = Some((now.steady, Arc::clone(&text)));
        Ok(text)
    }

    fn render(&self, now: Moment) -> Result<String, Refused> {
        let mut text = Text::default();
        of_status(&mut text, &self.status()?);
        of_rules(&mut text, &self.rules(now.wall)?);
        of_drops(&mut text, &self.drops()?);
        of_lists(&mut text, &self.lists(now)?);
        let events = self.events(None, 0, now)?;
        text.value(
            "rampart_log_events_total",
            Kind::Counter,
            "Events that rules recorded since the daemon was started.",
            events.next,
        );
        text.value(
            "rampart_log_suppressed_events_total",
            Kind::Counter,
            "Events that were not recorded, because there were more than log_rate allows or the ring was full.",
            events.suppressed,
        );
        let swept = self.with(|running| Ok(running.swept))?;
        let age = swept.map_or(f64::NAN, |at| now.steady.saturating_duration_since(at).as_secs_f64());
        text.value(
            "rampart_sweep_age_seconds",
            Kind::Gauge,
            "Time since expired flows were last swept; it is done every second.",
            if age.is_nan() { "NaN".to_owned() } else { format!("{age:.3}") },
        );
        of_process(&mut text);
        Ok(text.0)
    }
}

fn of_status(text: &mut Text, status: &Status) {
    use Kind::{Counter, Gauge};
    let Status { policy, flows, .. } = status;
    text.metric("rampart_info", Gauge, "The daemon, always 1.")
        .add(&[("version", &status.version), ("namespace", &status.namespace)], 1);
    let rows: [(&str, &str, f64); 4] = [
        (
            "rampart_start_time_seconds",
            "When the daemon was started, in seconds since 1970.",
            seconds(status.since),
        ),
        (
            "rampart_policy_applied_time_seconds",
            "When the policy in force was applied, in seconds since 1970.",
            seconds(policy.applied_at),
        ),
        (
            "rampart_policy_waiting",
            "1 while the policy in force waits to be confirmed.",
            f64::from(u8::from(policy.rolls_back_at.is_some())),
        ),
        ("rampart_policy_generation", "Number of the tables in force.", policy.generation as f64),
    ];
    for (name, help, value) in rows {
        text.value(name, Gauge, help, value);
    }
    let rows = [
        ("rampart_policy_rules", "Rules of the policy in force.", policy.rules as u64),
        ("rampart_flows_open", "Flows in the table.", flows.open),
        ("rampart_flows_half_open", "TCP handshakes under way, among the open flows.", flows.half_open),
        (
            "rampart_flows_unanswered",
            "Flows other than TCP that nobody has answered yet, among the open flows.",
            flows.unanswered,
        ),
        ("rampart_flows_capacity", "Flows that fit into the table.", flows.capacity),
        ("rampart_alerts", "Alerts that stand.", status.alerts.len() as u64),
        (
            "rampart_blocked_sources",
            "Sources that may open no flow because they scanned.",
            status.blocked_sources,
        ),
        ("rampart_troubles", "What needs attention, as `rampart status` says.", status.troubles.len() as u64),
    ];
    for (name, help, value) in rows {
        text.value(name, Gauge, help, value);
    }
    let mut attached = text.metric(
        "rampart_interface_attached",
        Gauge,
        "An interface that the firewall is attached to, always 1.",
    );
    for interface in &status.interfaces {
        let labels = [
            ("interface", interface.name.as_str()),
            ("zone", &interface.zone),
            ("hook", interface.hook.name()),
        ];
        attached.add(&labels, 1);
    }
    of_exports(text, &status.exports);
    of_gateways(text, &status.gateways);
    let mut counted = text.metric(
        "rampart_counted_total",
        Counter,
        "What the data plane has counted; `rampart status` explains each counter.",
    );
    for counter in &status.counters {
        counted.add(&[("counter", &counter.name)], counter.count);
    }
}

fn of_exports(text: &mut Text, exports: &[Export]) {
    use Kind::{Counter, Gauge};
    type Value = fn(&Export) -> u64;
    let rows: [(&str, Kind, &str, Value); 3] = [
        (
            "rampart_export_sent_total",
            Counter,
            "Messages or records that were sent to a collector since this was begun.",
            |export| export.sent,
        ),
        (
            "rampart_export_lost_total",
            Counter,
            "Messages or records that a collector that was away or slow did not get.",
            |export| export.lost,
        ),
        ("rampart_export_trouble", Gauge, "1 if nothing reaches the collector.", |export| {
            u64::from(export.trouble.is_some())
        }),
    ];
    for (name, kind, help, value) in rows {
        let mut samples = text.metric(name, kind, help);
        for export in exports {
            samples.add(&[("form", &export.form), ("to", &export.to)], value(export));
        }
    }
}

fn of_gateways(text: &mut Text, gateways: &[GatewayStatus]) {
    use Kind::{Counter, Gauge};
    let mut up = text.metric("rampart_gateway_up", Gauge, "1 if the gateway's process runs.");
    gateways.iter().for_each(|gateway| up.add(&[("gateway", &gateway.name)], u8::from(gateway.is_up)));
    let mut open = text.metric("rampart_gateway_connections", Gauge, "Connections of clients that are open.");
    gateways.iter().for_each(|gateway| open.add(&[("gateway", &gateway.name)], gateway.open));
    let mut requests =
        text.metric("rampart_gateway_requests_total", Counter, "Requests, by what became of them.");
    for gateway in gateways {
        for (outcome, count) in
            [("carried", gateway.carried), ("refused", gateway.refused), ("failed", gateway.failed)]
        {
            requests.add(&[("gateway", gateway.name.as_str()), ("outcome", outcome)], count);
        }
    }
    let mut restarts = text.metric(
        "rampart_gateway_restarts_total",
        Counter,
        "Times that the gateway's process has ended by itself and was started again.",
    );
    gateways.iter().for_each(|gateway| restarts.add(&[("gateway", &gateway.name)], gateway.restarts));
}

fn of_rules(text: &mut Text, rules: &Rules) {
    use Kind::{Counter, Gauge};
    let all = &rules.rules;
    let shown: &[RuleCount] = if all.len() > RULES_SHOWN { &[] } else { all };
    let mut hits = text.metric(
        "rampart_rule_hits_total",
        Counter,
        "Flows that a rule has allowed, and packets that it has refused.",
    );
    for rule in shown {
        hits.add(&[("rule", &rule.name), ("action", &rule.action)], rule.hits);
    }
    let mut limited = text.metric(
        "rampart_rule_limited_packets_total",
        Counter,
        "Packets beyond the limit of a rule that would have allowed them.",
    );
    for rule in shown {
        limited.add(&[("rule", &rule.name)], rule.limited);
    }
    let mut in_force = text.metric(
        "rampart_rule_in_force",
        Gauge,
        "1 if the rule is tried now: it is enabled, and its schedule holds.",
    );
    for rule in shown {
        in_force.add(&[("rule", &rule.name)], u8::from(rule.in_force));
    }
    text.value(
        "rampart_rules_hits_total",
        Counter,
        "Hits of all rules of the policy in force together; it begins anew for rules that come and go.",
        all.iter().map(|rule| rule.hits).sum::<u64>(),
    );
    text.value(
        "rampart_rules_left_out",
        Gauge,
        "Rules without metrics of their own, because there are more than 10000; `rampart rules --json` has all of them.",
        all.len() - shown.len(),
    );
}

fn of_drops(text: &mut Text, drops: &Drops) {
    let mut dropped = text.metric(
        "rampart_dropped_packets_total",
        Kind::Counter,
        "Packets that were dropped, by reason; `rampart drops` explains each.",
    );
    for drop in &drops.drops {
        dropped.add(&[("reason", &drop.reason)], drop.packets);
    }
}

fn of_lists(text: &mut Text, lists: &Lists) {
    use Kind::{Counter, Gauge};
    text.value(
        "rampart_lists_kernel_bytes",
        Gauge,
        "Bytes that all lists take in the kernel.",
        lists.kernel_bytes,
    );
    type Value = fn(&crate::api::ListCount) -> String;
    let rows: [(&str, Kind, &str, Value); 7] = [
        ("rampart_list_hits_total", Counter, "Packets that a list has refused by itself.", |list| {
            list.hits.to_string()
        }),
        (
            "rampart_list_failures_total",
            Counter,
            "How often a list could not be fetched since the policy was applied.",
            |list| list.failures.to_string(),
        ),
        ("rampart_list_ipv4_addresses", Gauge, "IPv4 addresses on a list.", |list| {
            list.ipv4_addresses.to_string()
        }),
        ("rampart_list_ipv6_ranges", Gauge, "Networks and ranges of IPv6 on a list.", |list| {
            list.ipv6_ranges.to_string()
        }),
        ("rampart_list_broken_lines", Gauge, "Lines of a list that were left out.", |list| {
            list.broken_lines.to_string()
        }),
        (
            "rampart_list_trouble",
            Gauge,
            "1 if a list is not what its file or its command says now.",
            |list| u8::from(list.trouble.is_some()).to_string(),
        ),
        (
            "rampart_list_read_time_seconds",
            Gauge,
            "When a list was read or fetched, in seconds since 1970.",
            |list| seconds(list.read_at).to_string(),
        ),
    ];
    for (name, kind, help, value) in rows {
        let mut samples = text.metric(name, kind, help);
        for list in &lists.lists {
            samples.add(&[("list", &list.name)], value(list));
        }
    }
}

/// What the machine says of the daemon, under the names that every exporter uses.
fn of_process(text: &mut Text) {
    let mut memory = text.metric(
        "process_resident_memory_bytes",
        Kind::Gauge,
        "Resident memory of the daemon, without what is in the kernel.",
    );
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok());
    if let Some(kibibytes) = resident {
        memory.add(&[], kibibytes * 1_024);
    }
    let mut files = text.metric("process_open_fds", Kind::Gauge, "Descriptors that the daemon has open.");
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        files.add(&[], open.count());
    }
}
