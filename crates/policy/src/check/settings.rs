//! Settings, with their defaults and ranges.

use super::syn_proxy;
use crate::quantity;
use crate::schema;
use crate::settings::{FLOWS, Forwarding, GRACE, Integrity, ReversePath, Settings, Timeouts};
use std::time::Duration;
use toml_reader::{Collector, Section, shortened};

pub(super) fn read(root: &Section<'_>, c: &mut Collector<'_>) -> Settings {
    let mut settings = Settings::default();
    if let Some(section) = schema::DOMAINS.section(root, "domains", c) {
        settings.grace = duration(&section, "grace", GRACE.0..=GRACE.1, c).unwrap_or(settings.grace);
    }
    let Some(section) = schema::SETTINGS.section(root, "settings", c) else { return settings };
    if let Some(forwarding) = section.choice("forwarding", &Forwarding::NAMES, c) {
        settings.forwarding = forwarding;
    }
    if let Some(flows) = section.integer("flows", FLOWS.0..=FLOWS.1, c) {
        settings.flows = flows;
        settings.half_open = settings.half_open.min(flows / 2);
        settings.unanswered = settings.unanswered.min(flows / 2);
    }
    if let Some(half_open) = section.integer("half_open", 64..=settings.flows, c) {
        settings.half_open = half_open;
    }
    if let Some(unanswered) = section.integer("unanswered", 64..=settings.flows, c) {
        settings.unanswered = unanswered;
    }
    if let Some(said) = syn_proxy::of_settings(root, &section, settings.forwarding, c) {
        settings.syn_proxy = said;
    }
    if let Some(reverse_path) = section.choice("reverse_path", &ReversePath::NAMES, c) {
        settings.reverse_path = reverse_path;
    }
    if let Some(log_rate) = section.integer("log_rate", 0..=1_000_000, c) {
        settings.log_rate = log_rate;
    }
    if let Some(section) = schema::TIMEOUTS.section(&section, "timeouts", c) {
        timeouts(&section, &mut settings.timeouts, c);
    }
    if let Some(section) = schema::INTEGRITY.section(&section, "integrity", c) {
        integrity(&section, &mut settings.integrity, c);
    }
    settings
}

fn timeouts(section: &Section<'_>, timeouts: &mut Timeouts, c: &mut Collector<'_>) {
    let keys: [(&'static str, &mut Duration); 8] = [
        ("tcp_opening", &mut timeouts.tcp_opening),
        ("tcp_established", &mut timeouts.tcp_established),
        ("tcp_closing", &mut timeouts.tcp_closing),
        ("tcp_reset", &mut timeouts.tcp_reset),
        ("udp", &mut timeouts.udp),
        ("icmp", &mut timeouts.icmp),
        ("other", &mut timeouts.other),
        ("unanswered", &mut timeouts.unanswered),
    ];
    for (key, timeout) in keys {
        if let Some(found) =
            duration(section, key, Duration::from_secs(1)..=Duration::from_secs(30 * 86_400), c)
        {
            *timeout = found;
        }
    }
}

fn integrity(section: &Section<'_>, integrity: &mut Integrity, c: &mut Collector<'_>) {
    let keys: [(&'static str, &mut bool); 4] = [
        ("checksums", &mut integrity.checksums),
        ("tcp_flags", &mut integrity.tcp_flags),
        ("land", &mut integrity.land),
        ("zones", &mut integrity.zones),
    ];
    for (key, on) in keys {
        if let Some(found) = section.flag(key, c) {
            *on = found;
        }
    }
}

pub(super) fn duration(
    section: &Section<'_>,
    key: &'static str,
    range: std::ops::RangeInclusive<Duration>,
    c: &mut Collector<'_>,
) -> Option<Duration> {
    let text = section.text(key, c)?;
    let found = quantity::duration(text.value);
    let inside = found.filter(|d| range.contains(d));
    if inside.is_none() {
        let message = match found {
            Some(_) => format!("`{key}` is out of range"),
            None => format!("`{}` is not a duration", shortened(text.value)),
        };
        let (least, most) = (range.start().as_secs(), range.end().as_secs());
        let help =
            format!("write numbers with s, min, h or d, such as \"90s\" or \"2h4min\": {least}s to {most}s");
        c.report(text.span, message, Some(help));
    }
    inside
}
