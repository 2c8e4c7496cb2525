//! What a policy says of its gateways, as their processes get it.

use gateway::config::{Addresses, Ftp, Gateway, Limits, Mode, Protocol, Rule, Server};
use gateway::users::Users;
use jiff::Timestamp;
use policy::Policy;
use policy::address::AddressSet;
use policy::gateways::{GatewayLimits, GatewayRule};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The gateways of a policy, with the rules that hold at a moment.
pub(super) fn of(
    policy: &Policy,
    at: Timestamp,
    users: impl Fn(&policy::gateways::Gateway) -> Option<Users>,
) -> Vec<Gateway> {
    let one = |gateway: &policy::gateways::Gateway| Gateway {
        name: gateway.name.clone(),
        protocol: match gateway.protocol {
            policy::gateways::Protocol::Http => Protocol::Http,
            policy::gateways::Protocol::Ftp { data_ports, is_active } => {
                Protocol::Ftp(Ftp { data_ports, is_active })
            }
        },
        listen: gateway.listen,
        mode: match &gateway.mode {
            policy::gateways::Mode::Explicit => Mode::Explicit,
            policy::gateways::Mode::Transparent => Mode::Transparent,
            policy::gateways::Mode::Publish(servers) => Mode::Publish(
                servers.iter().map(|(host, to)| Server { host: host.clone(), to: *to }).collect(),
            ),
        },
        rules: (gateway.rules.iter()).filter(|rule| policy.gateway_rule_holds(rule, at)).map(rule).collect(),
        reach: addresses(&gateway.reach),
        ports: gateway.ports.clone(),
        connect_ports: gateway.connect_ports.clone(),
        resolvers: gateway.resolvers.clone(),
        look_up: gateway.look_up,
        decisions: gateway.decisions,
        forwarded_for: gateway.forwarded_for,
        users: users(gateway),
        limits: limits(&gateway.limits),
    };
    policy.gateways.iter().map(one).collect()
}

fn rule(rule: &GatewayRule) -> Rule {
    Rule {
        name: rule.name.clone(),
        allow: rule.allow,
        source: rule.source.as_ref().map(addresses),
        hosts: rule.hosts.clone(),
        paths: rule.paths.clone(),
        methods: rule.methods.clone(),
        users: rule.users.clone(),
        largest_request: rule.largest_request,
        largest_answer: rule.largest_answer,
        server_name: rule.server_name,
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
}
