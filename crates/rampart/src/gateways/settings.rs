//! What a policy says of its gateways, as their processes get it.

use super::AllFiles;
use gateway::config::{Addresses, Dns, Ftp, Gateway, Limits, Mode, Protocol, Rule, Server};
use gateway::dns::{self, view::View};
use gateway::hosts::HostSet;
use jiff::Timestamp;
use policy::Policy;
use policy::address::AddressSet;
use policy::gateways::{GatewayLimits, GatewayRule};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The gateways of a policy, with the rules that hold at a moment.
pub(super) fn of(policy: &Policy, at: Timestamp, files: &AllFiles) -> Vec<Gateway> {
    let one = |gateway: &policy::gateways::Gateway| {
        let mut host_files = Vec::new();
        let rules = (gateway.rules.iter())
            .filter(|rule| policy.gateway_rule_holds(rule, at))
            .map(|it| {
                rule(it, matches!(gateway.protocol, policy::gateways::Protocol::Dns(_)), &mut host_files)
            })
            .collect();
        Gateway {
            name: gateway.name.clone(),
            protocol: match &gateway.protocol {
                policy::gateways::Protocol::Http => Protocol::Http,
                policy::gateways::Protocol::Ftp { data_ports, is_active } => {
                    Protocol::Ftp(Ftp { data_ports: *data_ports, is_active: *is_active })
                }
                policy::gateways::Protocol::Dns(settings) => Protocol::Dns(of_dns(policy, files, settings)),
            },
            listen: gateway.listen,
            mode: match &gateway.mode {
                policy::gateways::Mode::Explicit => Mode::Explicit,
                policy::gateways::Mode::Transparent => Mode::Transparent,
                policy::gateways::Mode::Publish(servers) => Mode::Publish(
                    servers.iter().map(|(host, to)| Server { host: host.clone(), to: *to }).collect(),
                ),
            },
            rules,
            host_sets: host_files.iter().map(|file| host_set(policy, files, file)).collect(),
            reach: addresses(&gateway.reach),
            ports: gateway.ports.clone(),
            connect_ports: gateway.connect_ports.clone(),
            resolvers: gateway.resolvers.clone(),
            look_up: gateway.look_up,
            client_names: gateway.client_names,
            decisions: gateway.decisions,
            forwarded_for: gateway.forwarded_for,
            users: gateway
                .users_file
                .as_ref()
                .map(|file| files.users.get(policy, file).cloned().unwrap_or_default()),
            limits: limits(&gateway.limits),
        }
    };
    policy.gateways.iter().map(one).collect()
}

fn of_dns(policy: &Policy, files: &AllFiles, settings: &policy::gateways::Dns) -> Dns {
    let view = |view: &policy::gateways::View| {
        let of_files = view.files.iter().filter_map(|file| Some(&files.names.get(policy, file)?.0[..]));
        let entries = std::iter::once(&view.entries[..]).chain(of_files);
        View::new(view.source.as_ref().map(addresses), entries, &settings.local)
    };
    Dns {
        views: settings.views.iter().map(view).collect(),
        local: settings.local.clone(),
        domains: policy.lists.iter().filter_map(|list| list.domain().map(str::to_owned)).collect(),
        cache: usize::try_from(settings.cache).unwrap_or(usize::MAX),
        rate: settings.rate,
    }
}

/// The hosts of a file; none while it was never read.
fn host_set(policy: &Policy, files: &AllFiles, file: &str) -> Arc<HostSet> {
    files.hosts.get(policy, file).map_or_else(Arc::default, |list| Arc::clone(&list.0))
}

/// A rule; `host_files` has the files of the rules before it, and then its own too.
fn rule<'p>(rule: &'p GatewayRule, is_of_dns: bool, host_files: &mut Vec<&'p str>) -> Rule {
    let mut place_of = |file: &'p String| {
        host_files.iter().position(|known| known == file).unwrap_or_else(|| {
            host_files.push(file);
            host_files.len() - 1
        })
    };
    // A number may have a word, and events have that.
    let kind = |word: &String| dns::kind(word).unwrap_or_else(|| word.clone());
    Rule {
        name: rule.name.clone(),
        allow: rule.allow,
        source: rule.source.as_ref().map(addresses),
        hosts: rule.hosts.clone(),
        host_sets: rule.host_files.iter().map(&mut place_of).collect(),
        paths: rule.paths.clone(),
        methods: if is_of_dns { rule.methods.iter().map(kind).collect() } else { rule.methods.clone() },
        users: rule.users.clone(),
        largest_request: rule.largest_request,
        largest_answer: rule.largest_answer,
        content_types: rule.content_types.clone(),
        server_name: rule.server_name,
        private_answers: rule.private_answers,
        log: rule.log,
    }
}

fn addresses(set: &AddressSet) -> Addresses {
    let v4 = set
        .v4
        .ranges()
        .iter()
        .map(|(first, last)| (Ipv4Addr::from(*first).into(), Ipv4Addr::from(*last).into()));
    let v6 = set
        .v6
        .ranges()
        .iter()
        .map(|(first, last)| (Ipv6Addr::from(*first).into(), Ipv6Addr::from(*last).into()));
    Addresses(v4.chain(v6).collect())
}

fn limits(limits: &GatewayLimits) -> Limits {
    let GatewayLimits {
        connections,
        connections_per_client,
        head_bytes,
        head_fields,
        head_time,
        idle,
        connect_time,
        answer_time,
        pooled,
    } = *limits;
    Limits {
        connections,
        connections_per_client,
        head_bytes,
        head_fields,
        head_time,
        idle,
        connect_time,
        answer_time,
        pooled,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn policies_and_files_know_the_same_names_of_users() {
        let long = "x".repeat(passwords::LONGEST_NAME);
        for name in
            ["anna", "a.b_c-9", "Anna", "ä", "", " ", "a b", "a@b", "a:b", &long, &(long.clone() + "x")]
        {
            let text = format!(
                "[zones]\na = {{ interfaces = 'e0' }}\n[gateways.g]\nprotocol = 'http'\nlisten = '10.0.0.1:80'\nusers_file = 'u'\n\
                 [[gateways.g.rules]]\nname = 'r'\naction = 'allow'\nusers = ['@{name}', '{name}']\n"
            );
            assert_eq!(policy::Policy::parse("p", &text).is_ok(), passwords::is_name(name), "{name:?}");
        }
    }

    #[test]
    fn policies_and_gateways_know_the_same_commands_of_ftp() {
        let of_policies: BTreeSet<&str> = policy::gateways::FTP_METHODS.into();
        assert_eq!(of_policies, gateway::ftp::command::judged().collect());
    }

    #[test]
    fn policies_and_gateways_know_the_same_types_of_records() {
        for word in policy::gateways::DNS_TYPES {
            assert_eq!(gateway::dns::kind(word).as_deref(), Some(word));
        }
        assert_eq!(gateway::dns::kind("TYPE28").as_deref(), Some("AAAA"));
        assert_eq!(gateway::dns::kind("TYPE65280").as_deref(), Some("TYPE65280"));
    }
}
