//! Text in, errors out: each row is a policy, and places, words and remedies that its errors must have.

use policy::Policy;
use policy::model::MAX_ZONES;

const ZONES: &str = "[zones]\nin = { interfaces = \"e1\" }\nout = { interfaces = \"e0\" }\n";

const BAD: &str = "[lists.bad]\nfile = \"x\"\nblock = \"both\"\n";
const COUNTRIES: &str = "[countries]\nfile = \"x\"\n";

fn countries(count: u8) -> String {
    let codes =
        (0..count).map(|i| format!("\"country:{}{}\"", char::from(b'A' + i / 26), char::from(b'A' + i % 26)));
    codes.collect::<Vec<_>>().join(", ")
}

fn domains(count: u8) -> String {
    (0..count).map(|i| format!("\"domain:a{i}.example\"")).collect::<Vec<_>>().join(", ")
}

/// The errors of a policy, the zones above before it: lines count from the text's own first.
fn errors(text: &str) -> Vec<String> {
    let with_zones = format!("{ZONES}{text}");
    let problems = match Policy::parse("p.toml", &with_zones) {
        Ok(_) => return Vec::new(),
        Err(problems) => problems,
    };
    let shown = |p: &policy::Problem| {
        format!(
            "{}:{} {} | {}",
            p.line.saturating_sub(3),
            p.column,
            p.message,
            p.help.as_deref().unwrap_or_default()
        )
    };
    problems.list().iter().map(shown).collect()
}

/// A rule whose keys are given besides, or instead of, the usual ones.
fn rule(extra: &str) -> String {
    let usual = [("name", "\"r\""), ("from", "\"in\""), ("to", "\"out\""), ("action", "\"allow\"")];
    let usual = usual.iter().filter(|(key, _)| !extra.lines().any(|l| l.starts_with(&format!("{key} ="))));
    let usual: String = usual.map(|(key, value)| format!("{key} = {value}\n")).collect();
    format!("[[rules]]\n{extra}\n{usual}")
}

/// A translation with these keys besides its name and where packets come from.
fn nat(keys: &str) -> String {
    format!("[[nat]]\nname = \"n\"\nfrom = \"in\"\n{keys}\n")
}

/// A list that is fetched.
const HTTP: &str = "protocol = \"http\"\nlisten = \"10.0.0.1:3128\"\n";
const FTP: &str = "protocol = \"ftp\"\nlisten = \"10.0.0.1:2121\"\n";
const DNS: &str = "protocol = \"dns\"\nlisten = \"10.0.0.1:53\"\n";
const PUBLISH: &str = "protocol = \"http\"\nlisten = \"10.0.0.1:3128\"\nmode = \"publish\"\n";

/// A gateway with these keys and a rule.
fn gateway(keys: &str) -> String {
    format!("[gateways.g]\n{keys}\n[[gateways.g.rules]]\nname = \"r\"\naction = \"allow\"\n")
}

/// A gateway whose rule has these keys.
fn gateway_rule(keys: &str) -> String {
    format!("[gateways.g]\n{HTTP}[[gateways.g.rules]]\nname = \"r\"\n{keys}\n")
}

fn fetched(from: &str) -> String {
    format!("[lists.bad]\n{from}\nblock = \"both\"\nrefresh = \"1h\"")
}

#[test]
fn each_mistake_is_reported_with_its_place_and_the_remedy() {
    let rows: Vec<(&str, String, &str)> = vec![
        ("a key of another table", rule("masquerade = true"), "2:1 [[rules]] number 1 has no key `masquerade` | it is a key of [[nat]]"),
        ("a key of a table in the table", "[settings]\ntcp_opening = \"5s\"".into(), "2:1 [settings] has no key `tcp_opening` | it is a key of [settings.timeouts]"),
        ("a key of many tables", "[scans]\nports = 9\nname = \"s\"".into(), "[scans] has no key `name` | there are: ports, hosts, window, block, except"),
        ("a key misspelt", rule("sorce = \"any\""), "2:1 [[rules]] number 1 has no key `sorce` | did you mean `source`?"),
        ("a zone that is not", rule("from = \"inn\""), "2:8 there is no zone `inn` | did you mean `in`?"),
        ("a zone for an object", rule("source = \"in\""), "2:10 there is no object `in` | `in` is a zone: zones stand in `from` and `to`"),
        ("the firewall for an object", rule("destination = [\"self\"]"), "there is no object `self` | `self` is a zone"),
        ("a list for an object", format!("{BAD}{}", rule("source = \"bad\"")), "5:10 there is no object `bad` | write \"list:bad\": `bad` is a list"),
        ("a country for an object", rule("source = \"CH\""), "there is no object `CH` | write \"country:CH\""),
        ("an address for a zone", rule("from = \"10.0.0.0/8\""), "there is no zone `10.0.0.0/8` | addresses stand in `source` and `destination`"),
        ("a mask", rule("source = \"10.1.0.0/255.255.0.0\""), "write the mask as a number of bits: \"10.1.0.0/16\""),
        ("an object that is not", rule("source = [\"lan\"]"), "2:11 there is no object `lan` | "),
        ("no protocol", "[log]\nsyslog = \"192.0.2.1:514\"".to_owned(), "2:10 `192.0.2.1:514` is no collector | write the protocol, the address and the port: \"udp://192.0.2.1:514\""),
        ("TLS alone", "[log]\nsyslog = \"tls://192.0.2.1:6514\"".to_owned(), "1:1 a collector by tls:// needs [log.tls] | write [log.tls] with ca"),
        ("TLS of nobody", "[log]\nsyslog = \"tcp://192.0.2.1:514\"\n[log.tls]\nca = \"c\"".to_owned(), "[log.tls] is for collectors by tls://, and there is none"),
        ("TLS without who has signed", "[log]\nsyslog = \"tls://192.0.2.1:6514\"\n[log.tls]\nname = \"a\"".to_owned(), "`ca`"),
        ("half a certificate", "[log]\nsyslog = \"tls://192.0.2.1:6514\"\n[log.tls]\nca = \"c\"\nkey = \"k\"".to_owned(), "`key` needs `certificate` | write `certificate` too"),
        ("an address as the name", "[log]\nsyslog = \"tls://192.0.2.1:6514\"\n[log.tls]\nca = \"c\"\nname = \"192.0.2.1\"".to_owned(), "`192.0.2.1` is not the name of a host"),
        ("another protocol", "[log]\nsyslog = \"quic://192.0.2.1:514\"".to_owned(), "2:10 `quic://192.0.2.1:514` is reached by none of udp://, tcp:// and tls://"),
        ("a collector by its name", "[log]\nsyslog = \"udp://logs.example.org:514\"".to_owned(), "names of hosts are not looked up"),
        ("no port", "[log]\nsyslog = \"udp://192.0.2.1\"".to_owned(), "2:10 `udp://192.0.2.1` has no address with a port"),
        ("nobody's address", "[log]\nsyslog = \"udp://0.0.0.0:514\"".to_owned(), "2:10 nobody can listen at `udp://0.0.0.0:514`"),
        ("nobody's port", "[log.ipfix]\nto = \"tcp://[2001:db8::1]:0\"".to_owned(), "2:6 nobody can listen at"),
        ("an address of all", "[log]\nsyslog = \"udp://255.255.255.255:514\"".to_owned(), "2:10 nobody can listen at `udp://255.255.255.255:514`"),
        ("an address of a link", "[log]\nsyslog = \"udp://[fe80::1]:514\"".to_owned(), "2:10 `udp://[fe80::1]:514` is on a link, and nobody knows on which | write an address that routes lead to"),
        ("IPv4 written as IPv6", "[log.ipfix]\nto = \"tcp://[::ffff:192.0.2.1]:4739\"".to_owned(), "2:6 `tcp://[::ffff:192.0.2.1]:4739` is an address of IPv4 | write the address as what it is: \"tcp://192.0.2.1:4739\""),
        ("messages for nobody", "[log]\nenterprise = 5".to_owned(), "1:1 [log] sends nothing | write journald = true"),
        ("messages of nothing", "[log]".to_owned(), "1:1 [log] sends nothing"),
        ("an enterprise of the journal", "[log]\nenterprise = 5\njournald = true".to_owned(), "2:1 `enterprise` needs `syslog` or `ipfix` | take `enterprise` out"),
        ("a log of nothing", format!("[lists.bad]\nfile = \"x\"\nlog = true\n{}", rule("source = \"list:bad\"")), "3:1 `log` is about what `block` and `require` refuse, and the list has neither | write log = true in the rules"),
        ("a facility of records", "[log]\nfacility = \"auth\"\n[log.ipfix]\nto = \"udp://192.0.2.1:4739\"".to_owned(), "2:1 `facility` needs `syslog` or `journald` | take `facility` out"),
        ("a collector twice", "[log]\nsyslog = [\"udp://192.0.2.1:514\", \"udp://192.0.2.1:0514\"]".to_owned(), "2:34 `udp://192.0.2.1:0514` is named twice | take one of them out"),
        ("five collectors", "[log]\nsyslog = [\"udp://192.0.2.1:1\", \"udp://192.0.2.1:2\", \"udp://192.0.2.1:3\", \"udp://192.0.2.1:4\", \"udp://192.0.2.1:5\"]".to_owned(), "2:95 `syslog` has too many collectors | name 4"),
        ("a facility misspelt", "[log]\nfacility = \"locla0\"".to_owned(), "2:12 `facility` cannot be `locla0` | did you mean `local0`?"),
        ("a socket from here on", "[log]\njournald = \"journal/socket\"".to_owned(), "2:12 `journald` must name a socket from the root on"),
        ("a socket too long", format!("[log]\njournald = \"/{}\"", "x".repeat(107)), "2:12 `journald` must name a socket from the root on"),
        ("a number for journald", "[log]\njournald = 1".to_owned(), "2:12 `journald` must be true, false or a socket's name, not an integer"),
        ("IPFIX to nobody", "[log.ipfix]\ndomain = 1".to_owned(), "[log.ipfix] has no `to` | write to = \"udp://192.0.2.1:4739\""),
        ("no domain", "[log.ipfix]\nto = \"udp://192.0.2.1:4739\"\ndomain = 0".to_owned(), "3:10 `domain` must lie between 1 and 4294967295"),
        ("a rate of nothing", "[log.ipfix]\nto = \"udp://192.0.2.1:4739\"\nrate = 0".to_owned(), "3:8 `rate` must lie between 1 and 1000000"),
        ("templates every hour of the year", "[log.ipfix]\nto = \"udp://192.0.2.1:4739\"\ntemplates = \"365d\"".to_owned(), "3:13 `templates` is out of range"),
        ("records of flows that go on each month", "[log.ipfix]\nto = \"udp://192.0.2.1:4739\"\nactive_timeout = \"31d\"".to_owned(), "3:18 `active_timeout` is out of range | write numbers with s, min, h or d, such as \"90s\" or \"2h4min\": 1s to 604800s"),
        ("records of flows that go on, at once", "[log.ipfix]\nto = \"udp://192.0.2.1:4739\"\nactive_timeout = true".to_owned(), "3:18 `active_timeout` must be a duration or false, not a boolean"),
        ("an object nearly there", format!("[objects]\nlan = \"10.0.0.0/8\"\n{}", rule("source = \"lam\"")), "4:10 there is no object `lam` | did you mean `lan`?"),
        ("a service nearly there", rule("service = \"htp\""), "2:11 there is no service `htp` | did you mean `http`?"),
        ("host bits", rule("source = \"10.0.0.1/8\""), "2:10 `10.0.0.1/8` is an address inside a network, not a network | write \"10.0.0.0/8\""),
        ("ports backwards", rule("service = \"tcp/90-80\""), "write 80-90"),
        ("source ports backwards", rule("service = \"tcp\"\nsource_port = \"9-8\""), "3:15 `9-8` is not a source port | the ports end before they begin: write 8-9"),
        ("a source port too high", rule("service = \"tcp\"\nsource_port = [\"1\", \"65536\"]"), "`65536` is not a source port | write a port"),
        ("a source port as a number", rule("service = \"tcp\"\nsource_port = 53"), "`source_port` must be a string, or strings in [ ], not an integer"),
        ("source ports of what", rule("source_port = \"53\""), "2:15 `source_port` goes with services that have no ports, such as protocol/0 | name services of TCP, UDP or SCTP"),
        ("source ports of a ping", rule("service = [\"tcp\", \"ping\"]\nsource_port = \"53\""), "such as protocol/1 |"),
        ("source ports that exclude each other", format!("[services]\np = {{ members = \"ntp\", source_port = \"123\" }}\n{}", rule("service = \"p\"\nsource_port = \"1024-65535\"")), "no packet has these source ports"),
        ("source ports of a group with a ping", "[services]\np = { members = \"ping\", source_port = \"123\" }\n".into(), "`source_port` goes with services that have no ports"),
        ("a service without members", "[services]\np = { source_port = \"123\" }\n".into(), "the service `p` has no `members`"),
        ("a service with exceptions", "[services]\np = { members = \"tcp\", except = \"http\" }\n".into(), "the service `p` has no key `except`"),
        ("an action that is not", rule("action = \"drop\""), "2:10 `action` cannot be `drop` | did you mean `deny`?"),
        ("no action", "[[rules]]\nname = \"r\"\nfrom = \"in\"\nto = \"out\"\n".into(), "1:1 [[rules]] number 1 has no `action` | write action = \"allow\", \"deny\" or \"reject\""),
        ("no name", "[[rules]]\nfrom = \"in\"\nto = \"out\"\naction = \"deny\"".into(), "has no `name` | write name = \"web\""),
        ("no zone", "[[rules]]\nname = \"r\"\nto = \"out\"\naction = \"deny\"".into(), "has no `from` | write from = \"any\", or the name of a zone"),
        ("a name twice", rule("") + &rule(""), "rule number 1 is called `r` too | give each rule a name of its own"),
        ("a name with a space", rule("name = \"a b\""), "`a b` cannot be the name of a rule"),
        ("a schedule that is not", rule("schedule = \"nights\""), "there is no schedule `nights` | there are none"),
        ("IPv4 written as IPv6", rule("source = \"::ffff:10.0.0.1\""), "2:10 no packet has `::ffff:10.0.0.1`: it is a way for programs to write an address of IPv4 | write \"10.0.0.1\""),
        ("a network of IPv4 written as IPv6", rule("source = [\"10.0.0.1\", \"::ffff:10.0.0.0/104\"]"), "2:23 no packet has `::ffff:10.0.0.0/104`: it is a way for programs to write an address of IPv4 | write \"10.0.0.0/8\""),
        ("a range of IPv4 written as IPv6", "[objects]\na = \"::ffff:10.0.0.1-::ffff:10.0.0.9\"".into(), "2:5 no packet has `::ffff:10.0.0.1-::ffff:10.0.0.9`: it is a way for programs to write an address of IPv4 | write \"10.0.0.1-10.0.0.9\""),
        ("a name for an address", rule("destination = \"www.example.com\""), "2:15 `www.example.com` is not an address, a network or a range | write \"domain:www.example.com\" for what a gateway of DNS says of this name; else write a host"),
        ("the same by a prefix", rule("destination = \"host:example\""), "2:15 `host:example` is not an address, a network or a range"),
        ("a port for a service", rule("service = 443"), "a service is a string, not an integer | write \"tcp/443\" or \"udp/443\""),
        ("a port among services", rule("service = [\"http\", 8443]"), "a service is a string, not an integer | write \"tcp/8443\" or \"udp/8443\""),
        ("more than a port for a service", rule("service = 70000"), "`service` must be a string, or strings in [ ], not an integer"),
        ("a number for a string", rule("source = 10"), "2:10 `source` must be a string, or strings in [ ], not an integer"),
        ("an empty list", rule("source = []"), "`source` is empty | leave the key out"),
        ("log of a closing that never is", rule("action = \"deny\"\nlog = \"close\""), "3:7 a rule that refuses has no flows whose end could be logged"),
        ("a limit on nothing", rule("action = \"deny\"\nlimit = { rate = \"1/s\" }"), "`limit` needs a rule that allows"),
        ("a limit without one", rule("limit = { per = \"source\" }"), "the limit has neither `rate` nor `connections`"),
        ("a burst alone", rule("limit = { connections = 5, burst = 1 }"), "`burst` needs `rate`"),
        ("a burst for ever", rule("limit = { rate = \"5/d\", burst = 10_000_000 }"), "a burst of 10000000 takes longer than ten years to come back at 5/d | write a smaller"),
        ("a rate per week", rule("limit = { rate = \"5/week\" }"), "2:18 `5/week` is not a rate | write how many"),
        ("an alert without a count", rule("alert = { within = \"1min\" }"), "has no `count`"),
        ("self to self", rule("from = \"self\"\nto = \"self\""), "the rule is from `self` to `self`"),
        ("an object in itself", "[objects]\na = [\"b\"]\nb = [\"a\", \"10.0.0.1\"]".into(), "`a` contains itself"),
        ("an object called any", "[objects]\nany = \"10.0.0.1\"".into(), "2:1 the name `any` is taken"),
        ("a built-in service again", "[services]\nhttp = \"tcp/8080\"".into(), "2:1 the name `http` is taken"),
        ("an empty object", "[objects]\na = { members = [\"10.0.0.1\"], except = [\"10.0.0.0/8\"] }".into(), "the object `a` is empty"),
        ("a group without members", "[objects]\na = { except = [\"10.0.0.0/8\"] }".into(), "has no `members`"),
        ("two defaults", "[[defaults]]\nfrom = \"any\"\nto = \"out\"\naction = \"deny\"\n[[defaults]]\nfrom = \"in\"\nto = \"out\"\naction = \"deny\"".into(), "5:1 `in` to `out` has a default already"),
        ("a time zone", "[schedules.s]\ntimes = \"daily\"\ntime_zone = \"Europe/Berln\"".into(), "there is no time zone `Europe/Berln` | did you mean `Europe/Berlin`?"),
        ("hours", "[schedules.s]\ntimes = \"mon 8-9\"\ntime_zone = \"UTC\"".into(), "2:9 `mon 8-9` is not a time of the week | write days"),
        ("a date in quotes", "[schedules.s]\ntimes = \"daily\"\ntime_zone = \"UTC\"\nfrom = \"2026-01-01\"".into(), "a date without quotes"),
        ("over before it begins", "[schedules.s]\ntimes = \"daily\"\ntime_zone = \"UTC\"\nfrom = 2026-02-01\nuntil = 2026-01-01".into(), "5:1 the schedule ends before it begins"),
        ("too few flows", "[settings]\nflows = 10".into(), "2:9 `flows` must lie between 1024 and 16777216"),
        ("a negative number", "[settings]\nflows = -1".into(), "`flows` must lie between 1024 and 16777216"),
        ("a duration", "[settings.timeouts]\nudp = \"soon\"".into(), "2:7 `soon` is not a duration"),
        ("a duration too long", "[settings.timeouts]\nudp = \"31d\"".into(), "`udp` is out of range"),
        ("a switch", "[settings.integrity]\nland = \"yes\"".into(), "`land` must be true or false, not a string"),
        ("a translation of nothing", nat(""), "1:1 the translation does not say what it changes | write one of masquerade"),
        ("two changes", nat("masquerade = true\nexempt = true\nto = \"out\""), "changes several things: masquerade, exempt"),
        ("a masquerade that is none", nat("masquerade = false\nto = \"out\""), "`masquerade` is false | write masquerade = true"),
        ("without a zone", nat("masquerade = true"), "has no `to`"),
        ("to the firewall", nat("masquerade = true\nto = \"self\""), "`to` has the zone `self`"),
        ("ports backwards", nat("masquerade = true\nto = \"out\"\nports = \"9-8\""), "`9-8` is not a range of ports"),
        ("port 0", nat("masquerade = true\nto = \"out\"\nports = \"0-8\""), "`0-8` is not a range of ports"),
        ("ports of a destination", nat("destination_to = \"10.0.0.1\"\ndestination = \"192.0.2.1\"\nports = \"5\""), "`ports` does not go with `destination_to`"),
        ("ARP for the interface's own address", nat("masquerade = true\nto = \"out\"\nanswer_arp = true"), "`answer_arp` does not go with `masquerade` | take it out"),
        ("IPv6", nat("source_to = \"2001:db8::1\"\nto = \"out\""), "of which only prefixes are translated | write IPv4 addresses, or translate a whole prefix"),
        ("an IPv6 destination", nat("destination_to = \"2001:db8::1\"\ndestination = \"192.0.2.1\""), "of which only prefixes are translated"),
        ("no IPv4 source", nat("masquerade = true\nto = \"out\"\nsource = \"2001:db8::/32\""), "`source` has no address of IPv4"),
        ("nobody's address", nat("source_to = \"127.0.0.1\"\nto = \"out\""), "no host can have the address 127.0.0.1"),
        ("a group's address", nat("destination_to = \"224.0.0.1\"\ndestination = \"192.0.2.1\""), "no host can have the address 224.0.0.1"),
        ("a host that is a network", nat("source_to = \"192.0.2.1/24\"\nto = \"out\""), "an address inside a network"),
        ("a destination without one", nat("destination_to = \"10.0.0.1\""), "the translation has no `destination`"),
        ("a destination with a zone", nat("destination_to = \"10.0.0.1\"\ndestination = \"192.0.2.1\"\nto = \"out\""), "a translation of destinations has no `to`"),
        ("a port for all protocols", nat("destination_to = \"10.0.0.1:80\"\ndestination = \"192.0.2.1\""), "`service` has services without ports"),
        ("a port that is none", nat("destination_to = \"10.0.0.1:http\"\ndestination = \"192.0.2.1\""), "`10.0.0.1:http` is not a destination"),
        ("sizes that differ", nat("one_to_one = \"192.0.2.0/28\"\nsource = \"10.0.0.0/27\"\nto = \"out\""), "not as many addresses"),
        ("one to one of everything", nat("one_to_one = \"192.0.2.0/28\"\nto = \"out\""), "not as many addresses"),
        ("one to one of a service", nat("one_to_one = \"192.0.2.0/28\"\nsource = \"10.0.0.0/28\"\nto = \"out\"\nservice = \"tcp/80\""), "`service` does not go with `one_to_one`"),
        ("a service from ports", format!("[services]\nown = {{ members = \"udp/123\", source_port = \"123\" }}\n{}", nat("masquerade = true\nto = \"out\"\nservice = \"own\"")), "`service` asks for source ports"),
        ("a mapping that is none", nat("masquerade = true\nto = \"out\"\nmapping = \"endpoint\""), "`mapping` cannot be `endpoint`"),
        ("a filter that is none", nat("masquerade = true\nto = \"out\"\nmapping = \"endpoint-independent\"\nfiltering = \"adress\""), "`filtering` cannot be `adress` | did you mean `address`?"),
        ("a filter without a mapping", nat("masquerade = true\nto = \"out\"\nports = \"5-9\"\nfiltering = \"address\""), "without a mapping others have no port to begin by | write mapping"),
        ("mappings on the firewall's own ports", nat("masquerade = true\nto = \"out\"\nmapping = \"endpoint-independent\"\nfiltering = \"address\""), "`ports` does not say by which ports | name ports on which nothing"),
        ("a mapping of a destination", nat("destination_to = \"10.0.0.1\"\ndestination = \"192.0.2.1\"\nmapping = \"endpoint-independent\""), "`mapping` goes with `masquerade` and `source_to` alone"),
        ("a filter of all of an address", nat("one_to_one = \"192.0.2.0/28\"\nsource = \"10.0.0.0/28\"\nto = \"out\"\nfiltering = \"address\""), "`filtering` goes with `masquerade` and `source_to` alone"),
        ("a prefix of IPv4", nat("source = \"fd01::/48\"\nto = \"out\"\nprefix_to = \"192.0.2.0/24\""), "`192.0.2.0/24` is no prefix of IPv6 of 1 to 64 bits | write the network"),
        ("an address for a prefix", nat("source = \"fd01::/48\"\nto = \"out\"\nprefix_to = \"2001:db8::1\""), "`2001:db8::1` is no prefix of IPv6"),
        ("a prefix of hosts", nat("source = \"fd01::/48\"\nto = \"out\"\nprefix_to = \"2001:db8::/65\""), "`2001:db8::/65` is no prefix of IPv6 of 1 to 64 bits"),
        ("a prefix of everything", nat("source = \"fd01::/48\"\nto = \"out\"\nprefix_to = \"::/0\""), "`::/0` is no prefix of IPv6"),
        ("a prefix of groups", nat("source = \"fd01::/48\"\nto = \"out\"\nprefix_to = \"ff0e::/48\""), "`ff0e::/48` is no prefix of IPv6"),
        ("a prefix of a link", nat("source = \"fd01::/48\"\nto = \"out\"\nprefix_to = \"fe80::/64\""), "`fe80::/64` is no prefix of IPv6"),
        ("a prefix with an address behind it", nat("source = \"fd01::/48\"\nto = \"out\"\nprefix_to = \"2001:db8:1::1/48\""), "`2001:db8:1::1/48` is no prefix of IPv6"),
        ("a prefix of nobody inside", nat("to = \"out\"\nprefix_to = \"2001:db8::/48\""), "`prefix_to` has no `source` that is one prefix of IPv6 | write the network inside"),
        ("a prefix for two", nat("to = \"out\"\nsource = [\"fd01::/48\", \"fd02::/48\"]\nprefix_to = \"2001:db8::/48\""), "`prefix_to` has no `source` that is one prefix"),
        ("a prefix for IPv4", nat("to = \"out\"\nsource = \"10.0.0.0/8\"\nprefix_to = \"2001:db8::/48\""), "`prefix_to` has no `source` that is one prefix of IPv6"),
        ("a prefix for itself", nat("to = \"out\"\nsource = \"fd01::/48\"\nprefix_to = \"fd01::/56\""), "fd01::/48 and fd01::/56 have addresses in common"),
        ("a prefix without zones", nat("source = \"fd01::/48\"\nprefix_to = \"2001:db8::/48\""), "the translation has no `to`"),
        ("a prefix of a service", nat("source = \"fd01::/48\"\nto = \"out\"\nprefix_to = \"2001:db8::/48\"\nservice = \"tcp/80\""), "`service` does not go with `prefix_to`"),
        ("a prefix by destination", nat("source = \"fd01::/48\"\nto = \"out\"\nprefix_to = \"2001:db8::/48\"\ndestination = \"2001:db8:9::/48\""), "`destination` does not go with `prefix_to`, which translates all of a prefix | take it out; what stays"),
        ("ports of a prefix", nat("source = \"fd01::/48\"\nto = \"out\"\nprefix_to = \"2001:db8::/48\"\nports = \"5-9\""), "`ports` does not go with `prefix_to`"),
        ("a mapping of a prefix", nat("source = \"fd01::/48\"\nto = \"out\"\nprefix_to = \"2001:db8::/48\"\nmapping = \"endpoint-independent\""), "`mapping` goes with `masquerade` and `source_to` alone"),
        ("ARP for a prefix", nat("source = \"fd01::/48\"\nto = \"out\"\nprefix_to = \"2001:db8::/48\"\nanswer_arp = true"), "`answer_arp` does not go with `prefix_to`"),
        ("a prefix and a masquerade", nat("source = \"fd01::/48\"\nto = \"out\"\nprefix_to = \"2001:db8::/48\"\nmasquerade = true"), "changes several things: masquerade, prefix_to"),
        ("an exemption of a service of IPv6", nat("source = \"fd01::/48\"\nservice = \"tcp/80\"\nexempt = true"), "`source` has no address of IPv4 | an exemption of some services"),
        ("two of a name", format!("{}{}", nat("exempt = true"), nat("exempt = true")), "translation number 1 is called `n` too"),
        ("where the kernel forwards", format!("[settings]\nforwarding = \"kernel\"\n{}", nat("exempt = true")), "where the kernel forwards, it also translates | take `[[nat]]` out"),
        ("a key that it has not", nat("new_source = \"192.0.2.1\""), "[[nat]] number 1 has no key `new_source`"),
        ("a key of a later part", "[protection]\nsyn_floo = true".into(), "2:1 [protection] has no key `syn_floo` | did you mean `syn_flood`?"),
        ("scans of nothing", "[scans]\nblock = \"10min\"".into(), "1:1 [scans] has neither `ports` nor `hosts` | write ports = 100, hosts = 100, or both"),
        ("scans of a few ports", "[scans]\nports = 4".into(), "2:9 `ports` must lie between 5 and 1000"),
        ("scans of too many hosts", "[scans]\nhosts = 1001".into(), "2:9 `hosts` must lie between 5 and 1000"),
        ("scans in no time", "[scans]\nports = 100\nwindow = \"0s\"".into(), "3:10 `window` is out of range"),
        ("a block that is none", "[scans]\nports = 100\nblock = true".into(), "3:9 `block` must be a string, not a boolean"),
        ("a block for ever", "[scans]\nports = 100\nblock = \"31d\"".into(), "3:9 `block` is out of range"),
        ("a key of scans", "[scans]\nports = 100\nexcpt = \"any\"".into(), "3:1 [scans] has no key `excpt` | did you mean `except`?"),
        ("a list that is no scan", format!("{BAD}[scans]\nports = 100\nexcept = \"list:bad\""), "6:10 lists of addresses, countries and domains can stand in rules alone"),
        ("an object that is no scan", "[scans]\nports = 100\nexcept = \"trusted\"".into(), "3:10 there is no object `trusted` | "),
        ("a list that is bound to nothing", "[lists.bad]\nfile = \"x\"".into(), "1:8 the list `bad` is bound to nothing | write block"),
        ("a list of nothing", "[lists.bad]\nblock = \"both\"".into(), "1:8 nothing is on the list `bad` | write file"),
        ("a list's key", "[lists.bad]\nfil = \"x\"".into(), "2:1 the list `bad` has no key `fil` | did you mean `file`?"),
        ("a list's end", "[lists.bad]\nfile = \"x\"\nblock = \"sorce\"".into(), "3:9 `block` cannot be `sorce` | did you mean `source`?"),
        ("a list that nothing passes", "[lists.bad]\nfile = \"x\"\nblock = \"both\"\nrequire = \"source\"".into(), "4:1 nothing would pass"),
        ("a list without a file's name", "[lists.bad]\nfile = \"\"\nblock = \"both\"".into(), "2:8 `file` is empty | write"),
        ("countries without a table", "[lists.ch]\nentries = \"10.0.0.0/8\"\ncountries = \"CH\"\nblock = \"both\"".into(), "3:1 `countries` needs a `file`"),
        ("a country's name", "[lists.ch]\nfile = \"x\"\ncountries = [\"Suisse\"]\nblock = \"both\"".into(), "3:14 `Suisse` is not the code of a country"),
        ("a list's name", "[lists.\"a b\"]\nfile = \"x\"\nblock = \"both\"".into(), "1:8 `a b` cannot be the name of a list"),
        ("a rule with the name of a list's counter", format!("[lists.bad]\nfile = \"x\"\nblock = \"both\"\n{}", rule("").replace("name = \"r\"", "name = \"list:bad\"")), "`list:bad` is the name of the counter of a list"),
        ("33 lists", (0..33).map(|i| format!("[lists.l{i}]\nfile = \"x\"\nblock = \"both\"\n")).collect(), "97:8 the policy has too many lists"),
        ("cookies of another kind", "[settings]\nsyn_proxy = \"allways\"".into(), "2:13 `syn_proxy` cannot be `allways`"),
        ("cookies where the kernel forwards", "[settings]\nforwarding = \"kernel\"\nsyn_proxy = \"on\"".into(), "3:1 where the kernel forwards, this firewall answers no SYNs | leave `forwarding` out"),
        ("cookies of a rule, of another kind", rule("syn_proxy = true"), "`syn_proxy` must be a string"),
        ("cookies of a rule that refuses", rule("action = \"deny\"\nsyn_proxy = \"on\""), "`syn_proxy` needs a rule that allows | take `syn_proxy` out"),
        ("cookies of a rule where the kernel forwards", format!("[settings]\nforwarding = \"kernel\"\n{}", rule("syn_proxy = \"on\"")), "where the kernel forwards, this firewall answers no SYNs | leave `forwarding` out"),
        ("cookies of a rule on a bridge", format!("{}[bridges.w]\ninterfaces = [\"a0\", \"b0\"]", rule("syn_proxy = \"when-full\"\n")), "this version answers no SYNs on bridges | take `syn_proxy` out"),
        ("cookies of datagrams", rule("service = \"udp/53\"\nsyn_proxy = \"on\""), "`syn_proxy` is about TCP, and the rule has none | take `syn_proxy` out"),
        ("cookies on a bridge", "[settings]\nsyn_proxy = \"when-full\"\n[bridges.w]\ninterfaces = [\"a0\", \"b0\"]".into(), "2:1 this version answers no SYNs on bridges | take `syn_proxy` out"),
        ("protection", "[protection]\nsyn_flood = true".into(), "this version has no flood protection"),
        ("a gateway that is not there", rule("service = \"http\"\ngateway = \"web\""), "3:11 there is no gateway `web`"),
        ("a gateway that clients have to know", rule("service = \"http\"\ngateway = \"g\"") + &gateway(HTTP), "3:11 clients have to know the gateway `g`"),
        ("a gateway of a rule that denies", rule("service = \"http\"\ngateway = \"g\"\naction = \"deny\""), "3:1 `gateway` needs a rule that allows"),
        ("a gateway of all services", rule("gateway = \"g\""), "2:1 a gateway takes TCP alone"),
        ("a gateway of what is for the firewall", rule("to = \"self\"\nservice = \"http\"\ngateway = \"g\""), "4:1 what is from or to the firewall itself is not handed"),
        ("a gateway where the kernel forwards", format!("[settings]\nforwarding = \"kernel\"\n{}", rule("service = \"http\"\ngateway = \"g\"")), "transparent gateways need the firewall's own forwarding"),
        ("a gateway without a protocol", gateway("listen = \"10.0.0.1:1\""), "1:11 the gateway `g` has no `protocol`"),
        ("a gateway of another protocol", gateway("protocol = \"sip\"\nlisten = \"10.0.0.1:53\""), "2:12 `protocol` cannot be `sip` | write protocol = \"http\", \"ftp\" or \"dns\""),
        ("a mode of DNS", gateway(&format!("{DNS}mode = \"transparent\"")), "4:8 `mode` is for protocol = \"http\" and \"ftp\""),
        ("DNS at every address", gateway("protocol = \"dns\"\nlisten = \"0.0.0.0:53\""), "3:1 a gateway of DNS cannot listen at every address"),
        ("DNS that asks itself", gateway(&format!("{DNS}forward_to = \"10.0.0.1\"")), "4:1 the gateway would ask itself"),
        ("a name server of DNS by name", gateway(&format!("{DNS}forward_to = \"dns.test\"")), "`dns.test` is no name server"),
        ("the other key for name servers", gateway(&format!("{DNS}resolvers = \"10.0.0.3\"")), "`resolvers` is for protocol = \"http\" and \"ftp\" | write `forward_to`"),
        ("ports of DNS", gateway(&format!("{DNS}ports = 53")), "`ports` is for protocol = \"http\""),
        ("a zone that is an address", gateway(&format!("{DNS}local = \"10.0.0.1\"")), "`10.0.0.1` cannot stand in `local`"),
        ("a cache of nothing", gateway(&format!("{DNS}cache = \"1KiB\"")), "`cache` cannot be `1KiB`"),
        ("a rate of nothing", gateway(&format!("{DNS}rate = 0")), "`rate` must lie between 1 and 1000000"),
        ("a view without a name", gateway(&format!("{DNS}views = [{{ entries = \"10.0.0.5\" }}]")), "the address 10.0.0.5 has no name"),
        ("a view of names first", gateway(&format!("{DNS}views = [{{ entries = \"a.lan 10.0.0.5\" }}]")), "`a.lan` is no address"),
        ("a view without a path", gateway(&format!("{DNS}views = [{{ file = \"\" }}]")), "a file has a path | write the path of a file of names"),
        ("a view's key", gateway(&format!("{DNS}views = [{{ files = \"a\" }}]")), "has no key `files` | did you mean `file`?"),
        ("a cache of HTTP", gateway(&format!("{HTTP}cache = \"1MiB\"")), "`cache` is for protocol = \"dns\""),
        ("views of FTP", gateway(&format!("{FTP}views = []")), "`views` is for protocol = \"dns\""),
        ("a type that is not known", format!("[gateways.g]\n{DNS}[[gateways.g.rules]]\nname = \"r\"\naction = \"allow\"\ntypes = \"AAAAA\""), "`AAAAA` cannot stand in `types`"),
        ("a method of DNS", format!("[gateways.g]\n{DNS}[[gateways.g.rules]]\nname = \"r\"\naction = \"allow\"\nmethods = \"GET\""), "`methods` is for protocol = \"http\""),
        ("a name that is an address", format!("[gateways.g]\n{DNS}[[gateways.g.rules]]\nname = \"r\"\naction = \"allow\"\nhosts = \"10.0.0.5\""), "nobody asks for the name `10.0.0.5`"),
        ("private answers that are denied", format!("[gateways.g]\n{DNS}[[gateways.g.rules]]\nname = \"r\"\naction = \"deny\"\nprivate_answers = true"), "`private_answers` needs a rule that allows"),
        ("no file of hosts", gateway_rule("action = \"deny\"\nhosts_file = []"), "`hosts_file` is empty"),
        ("too many files of hosts", gateway_rule(&format!("action = \"deny\"\nhosts_file = [{}]", "\"a\", ".repeat(17))), "`hosts_file` has too many files | it can have 16"),
        ("a file of hosts without a path", gateway_rule("action = \"deny\"\nhosts_file = [\"a\", \"\"]"), "a file has a path | write the path of a file with a host a line"),
        ("a file of hosts that no client names", gateway(&format!("{FTP}mode = \"transparent\"")) + "hosts_file = \"a\"", "clients do not name hosts as `hosts_file` has them"),
        ("a type of content that is none", gateway_rule("action = \"allow\"\ncontent_types = [\"text/html\", \"html\"]"), "`html` cannot stand in `content_types` | write types of content as servers say them"),
        ("every type of content", gateway_rule("action = \"allow\"\ncontent_types = \"*/*\""), "`*/*` cannot stand in `content_types`"),
        ("a type of content twice denied", gateway_rule("action = \"allow\"\ncontent_types = \"!!text/html\""), "`!!text/html` cannot stand in `content_types`"),
        ("a type of content with its parameter", gateway_rule("action = \"allow\"\ncontent_types = \"text/html; charset=x\""), "`text/html; charset=x` cannot stand in `content_types`"),
        ("types of content that are denied", gateway_rule("action = \"deny\"\ncontent_types = \"image/*\""), "`content_types` needs a rule that allows | take `content_types` out"),
        ("types of content of FTP", gateway(FTP) + "content_types = \"image/*\"", "`content_types` is for protocol = \"http\""),
        ("types of HTTP", gateway_rule("action = \"deny\"\ntypes = \"A\""), "`types` is for protocol = \"dns\""),
        ("published servers of FTP", gateway(&format!("{FTP}mode = \"publish\"")), "`publish` is for protocol = \"http\""),
        ("a head of FTP", gateway(&format!("{FTP}head_bytes = 2000")), "`head_bytes` is for protocol = \"http\""),
        ("tunnels of FTP", gateway(&format!("{FTP}connect_ports = 443")), "`connect_ports` is for protocol = \"http\""),
        ("data ports of HTTP", gateway(&format!("{HTTP}data_ports = \"2000-2001\"")), "`data_ports` is for protocol = \"ftp\""),
        ("data ports below 1024", gateway(&format!("{FTP}data_ports = \"20-2000\"")), "`20-2000` are no data ports"),
        ("data ports in the other order", gateway(&format!("{FTP}data_ports = \"2001-2000\"")), "`2001-2000` are no data ports"),
        ("data where commands come", gateway(&format!("{FTP}data_ports = \"2100-2200\"")), "port 2121 cannot be among the data ports 2100-2200"),
        ("data where servers take commands", gateway(&format!("{FTP}ports = [21, 61005]")), "port 61005 cannot be among the data ports 61000-61999"),
        ("a way to servers", gateway(&format!("{FTP}to_servers = \"both\"")), "`to_servers` cannot be `both`"),
        ("users without a file", gateway_rule("action = \"allow\"\nusers = \"anna\""), "`users` needs `users_file` in [gateways.NAME]"),
        ("users of clients that know of no gateway", gateway(&format!("{HTTP}mode = \"transparent\"")) + "users = \"*\"", "`users` is for mode = \"explicit\" and \"publish\""),
        ("the same of FTP", gateway(&format!("{FTP}mode = \"transparent\"")) + "hosts = \"192.0.2.1\"\nusers = \"*\"", "`users` is for mode = \"explicit\" and \"publish\""),
        ("a file of users where nobody logs in", gateway(&format!("{HTTP}mode = \"transparent\"\nusers_file = \"u\"")), "`users_file` is for mode = \"explicit\" and \"publish\""),
        ("users of names", gateway(DNS) + "users = \"*\"", "`users` is for protocol = \"http\" and \"ftp\""),
        ("a file of users for names", gateway(&format!("{DNS}users_file = \"u\"")), "`users_file` is for protocol = \"http\" and \"ftp\""),
        ("no file of users", gateway(&format!("{HTTP}users_file = \"\"")), "`users_file` names no file"),
        ("a user who is none", gateway(&format!("{HTTP}users_file = \"u\"")) + "users = [\"anna\", \"Ben\"]", "`Ben` cannot stand in `users`"),
        ("a group without a name", gateway(&format!("{HTTP}users_file = \"u\"")) + "users = \"@\"", "`@` cannot stand in `users`"),
        ("a pattern of users", gateway(&format!("{HTTP}users_file = \"u\"")) + "users = \"a*\"", "`a*` cannot stand in `users`"),
        ("a command of FTP", format!("[gateways.g]\n{FTP}[[gateways.g.rules]]\nname = \"r\"\naction = \"allow\"\nmethods = \"GET\""), "`GET` cannot stand in `methods`"),
        ("names where FTP has none", gateway(&format!("{FTP}mode = \"transparent\"")).replace("action = \"allow\"", "action = \"deny\"\nhosts = \"a.test\""), "the rule `r` would never match: clients do not name the host `a.test`"),
        ("name servers where FTP has no names", gateway(&format!("{FTP}mode = \"transparent\"\nresolvers = \"10.0.0.3\"")), "`resolvers` is for mode = \"explicit\""),
        ("no data for clients of FTP", rule("service = \"ftp\"\ngateway = \"g\"") + &gateway(&format!("{FTP}mode = \"transparent\"")), "no rule hands the gateway `g` its data ports 61000-61999"),
        ("paths of FTP", format!("[gateways.g]\n{FTP}[[gateways.g.rules]]\nname = \"r\"\naction = \"allow\"\npaths = \"/pub\""), "`paths` is for protocol = \"http\""),
        ("tunnels of a transparent gateway", gateway(&format!("{HTTP}mode = \"transparent\"\nconnect_ports = 443")), "`connect_ports` is for mode = \"explicit\""),
        ("a transparent gateway at every address, and another at the same port", gateway(&format!("{}mode = \"transparent\"", HTTP.replace("10.0.0.1:", "[::]:"))) + &gateway(HTTP).replace("gateways.g", "gateways.h"), "the gateway `g` listens there already"),
        ("a gateway of another mode", gateway(&format!("{HTTP}mode = \"reverse\"")), "`mode` cannot be `reverse`"),
        ("a gateway without a place", gateway("protocol = \"http\""), "the gateway `g` has no `listen`"),
        ("a gateway without a port", gateway("protocol = \"http\"\nlisten = \"10.0.0.1\""), "3:10 nobody can listen at `10.0.0.1`"),
        ("a gateway on a link", gateway("protocol = \"http\"\nlisten = \"[fe80::1]:80\""), "nobody can listen at"),
        ("a gateway without rules", "[gateways.g]\nprotocol = \"http\"\nlisten = \"10.0.0.1:1\"".into(), "the gateway has no rule"),
        ("a gateway's key", gateway(&format!("{HTTP}port = 1")), "has no key `port` | did you mean `ports`?"),
        ("a published gateway without servers", gateway(&format!("{HTTP}mode = \"publish\"")), "has no `servers`"),
        ("servers of an explicit gateway", gateway(&format!("{HTTP}servers = {{ \"a.test\" = \"10.0.0.2:80\" }}")), "`servers` needs mode = \"publish\""),
        ("a server without a port", gateway(&format!("{PUBLISH}servers = {{ \"a.test\" = \"10.0.0.2\" }}")), "the server of `a.test` has no address with a port"),
        ("a server's name", gateway(&format!("{PUBLISH}servers = {{ \"A.test\" = \"10.0.0.2:80\" }}")), "`A.test` is not the name of a host"),
        ("a resolver of published servers", gateway(&format!("{PUBLISH}servers = {{ \"a.test\" = \"10.0.0.2:80\" }}\nresolvers = \"10.0.0.3\"")), "`resolvers` is for mode = \"explicit\""),
        ("a name server by name", gateway(&format!("{HTTP}resolvers = \"dns.test\"")), "`dns.test` is no name server"),
        ("a port of a gateway", gateway(&format!("{HTTP}ports = [80, 0]")), "`ports` needs ports, 1 to 65535"),
        ("decisions for ever", gateway(&format!("{HTTP}decisions = \"2d\"")), "`decisions` is out of range"),
        ("a head without bounds", gateway(&format!("{HTTP}head_bytes = 1_000_000")), "`head_bytes` must lie between 1024 and 65536"),
        ("a gateway's rule without an action", gateway_rule(""), "has no `action`"),
        ("a gateway's rule that rejects", gateway_rule("action = \"reject\""), "`action` cannot be `reject`"),
        ("a host in capitals", gateway_rule("action = \"deny\"\nhosts = \"WWW.test\""), "`WWW.test` cannot stand in `hosts`"),
        ("a host that is a number", gateway_rule("action = \"deny\"\nhosts = \"127.1\""), "`127.1` cannot stand in `hosts`"),
        ("a pattern inside a host", gateway_rule("action = \"deny\"\nhosts = \"a.*.test\""), "`a.*.test` cannot stand in `hosts`"),
        ("no host", gateway_rule("action = \"deny\"\nhosts = []"), "`hosts` is empty"),
        ("a path with an escape", gateway_rule("action = \"deny\"\npaths = \"/a%20b\""), "`/a%20b` cannot stand in `paths`"),
        ("a path with dots", gateway_rule("action = \"deny\"\npaths = \"/a/../b\""), "cannot stand in `paths`"),
        ("a path from nowhere", gateway_rule("action = \"deny\"\npaths = \"a\""), "`a` cannot stand in `paths`"),
        ("a method in small letters", gateway_rule("action = \"deny\"\nmethods = \"get\""), "`get` cannot stand in `methods`"),
        ("a gateway's schedule", gateway_rule("action = \"deny\"\nschedule = \"x\""), "there is no schedule `x`"),
        ("a size without a unit that is known", gateway_rule("action = \"allow\"\nlargest_request = \"10MB\""), "`10MB` is not a size"),
        ("a size of what is denied", gateway_rule("action = \"deny\"\nlargest_request = \"10MiB\""), "`largest_request` needs a rule that allows"),
        ("a list of addresses in a gateway", format!("{BAD}{}", gateway_rule("action = \"deny\"\nsource = \"list:bad\"")), "lists of addresses, countries and domains can stand in rules alone"),
        ("two gateways at one place", format!("{}\n{}", gateway(HTTP), gateway(HTTP).replace("gateways.g", "gateways.h")), "the gateway `g` listens there already"),
        ("two rules of a gateway with one name", gateway(&format!("{HTTP}[[gateways.g.rules]]\nname = \"r\"\naction = \"deny\"")), "another rule of the gateway is called `r` too"),
        ("inspection", rule("inspection = \"all\""), "this version has no inspection"),
        ("a country from nowhere", rule("source = \"country:US\""), "2:10 the policy does not say where countries are from | write [countries]"),
        ("a country that is none", format!("{COUNTRIES}{}", rule("source = \"country:USA\"")), "4:10 `USA` is not the code of a country"),
        ("countries without a file", "[countries]\nbroken = \"skip\"".into(), "1:1 [countries] has no `file` | write file"),
        ("an empty code", format!("{COUNTRIES}{}", rule("source = \"country:\"")), "`` is not the code of a country"),
        ("a list of addresses in a zone", format!("{BAD}[zones.z]\ninterfaces = \"z0\"\nnetworks = \"list:bad\""), "6:12 lists of addresses, countries and domains can stand in rules alone"),
        ("a list in a list", format!("{BAD}[lists.l]\nentries = \"list:bad\"\nblock = \"both\""), "lists of addresses, countries and domains can stand in rules alone"),
        ("a list in a translation", format!("{BAD}{}", nat("to = \"out\"\nsource = \"list:bad\"\nmasquerade = true")), "lists of addresses, countries and domains can stand in rules alone"),
        ("an exception of a list", format!("{BAD}[objects]\na = {{ members = \"list:bad\", except = \"10.0.0.1\" }}"), "5:38 `except` takes nothing out of a list"),
        ("a list as an exception", format!("{BAD}[objects]\na = {{ members = \"any\", except = \"list:bad\" }}"), "`except` takes nothing out of a list of addresses, and no list out of addresses"),
        ("a list that is looked at too often", "[lists.bad]\nfile = \"x\"\nblock = \"both\"\nrefresh = \"1s\"".into(), "4:11 `refresh` is out of range"),
        ("a list without a file that is looked at", "[lists.bad]\nentries = \"10.0.0.1\"\nblock = \"both\"\nrefresh = \"1min\"".into(), "4:1 `refresh` needs a `file`"),
        ("a list without a file whose lines are broken", "[lists.bad]\nentries = \"10.0.0.1\"\nblock = \"both\"\nbroken = \"skip\"".into(), "4:1 `broken` needs a `file`, a `command` or a `url` | take `broken` out"),
        ("a list that expires without a zone", "[lists.bad]\nentries = \"10.0.0.1\"\nblock = \"both\"\nexpires = \"2026-12-31T23:00\"".into(), "4:11 `2026-12-31T23:00` is no time with its zone | write expires"),
        ("a list of two places", "[lists.bad]\nfile = \"x\"\nurl = \"https://a.example/b\"\nblock = \"both\"".into(), "3:1 a list comes from one place | take one out"),
        ("a command for a shell", fetched("command = \"curl https://a.example\""), "2:11 `command` is run without a shell, and this is one word | write each word"),
        ("a command of nothing", fetched("command = [\"\", \"x\"]"), "2:12 `command` names no program"),
        ("a command from a folder on", fetched("command = [\"./fetch\"]"), "2:12 the program of `command` is neither a plain name nor named from the root on"),
        ("a command with a zero", fetched("command = [\"fetch\", \"a\\u0000b\"]"), "2:12 `command` has a byte that no argument can have"),
        ("a long command", fetched(&format!("command = [\"fetch\"{}]", ", \"x\"".repeat(64))), "2:12 `command` is too long"),
        ("a command of long words", fetched(&format!("command = [\"fetch\", \"{}\"]", "x".repeat(4096))), "2:12 `command` is too long"),
        ("a command once", "[lists.bad]\ncommand = [\"fetch\"]\nblock = \"both\"".into(), "has no `refresh` | write refresh = \"1h\""),
        ("a url that anybody can change", fetched("url = \"http://a.example/bad.txt\""), "2:7 `url` is no address that begins with https:// | write url"),
        ("a url of no host", fetched("url = \"https:///bad.txt\""), "2:7 `url` is no address"),
        ("a url with a space", fetched("url = \"https://a.example/b c\""), "2:7 `url` is no address"),
        ("a file as a url", fetched("url = \"file:///etc/passwd\""), "2:7 `url` is no address"),
        ("countries of two places", "[countries]\nfile = \"x\"\ncommand = [\"fetch\"]\nrefresh = \"1h\"".into(), "3:1 a list comes from one place"),
        ("a list misspelt", format!("{BAD}{}", rule("source = \"list:bat\"")), "5:10 there is no list `bat` | there are: bad"),
        ("33 countries", format!("{COUNTRIES}{}", rule(&format!("source = [{}]", countries(33)))), "the policy has more than 32 lists, countries and domains | give countries"),
        ("32 countries and a list", format!("{BAD}{COUNTRIES}{}", rule(&format!("source = [\"list:bad\", {}]", countries(32)))), "the policy has more than 32 lists, countries and domains"),
        ("too many pairs of lists", format!("{COUNTRIES}{}", rule(&format!("source = [{0}]\ndestination = [{0}]", countries(9)))), "more than 64 pairs of lists"),
        ("a domain of no gateway", rule("destination = \"domain:example.org\""), "2:15 the addresses of `example.org` come from a gateway of DNS, and the policy has none | write one"),
        ("a domain of no gateway, in an object", "[objects]\na = \"domain:example.org\"".into(), "2:5 the addresses of `example.org` come from a gateway of DNS"),
        ("a domain that is none", rule("destination = \"domain:example..org\""), "2:15 `example..org` is not the name of a domain | write a name"),
        ("an empty domain", rule("destination = \"domain:\""), "`` is not the name of a domain"),
        ("every domain", rule("destination = \"domain:*\""), "`*` is not the name of a domain"),
        ("a star within a domain", rule("destination = \"domain:a.*.org\""), "`a.*.org` is not the name of a domain"),
        ("an address as a domain", rule("destination = \"domain:192.0.2.1\""), "`192.0.2.1` is not the name of a domain"),
        ("a domain in a zone", "[zones.z]\ninterfaces = \"z0\"\nnetworks = \"domain:example.org\"".into(), "3:12 lists of addresses, countries and domains can stand in rules alone"),
        ("a grace without end", "[domains]\ngrace = \"2h\"".into(), "2:9 `grace` is out of range"),
        ("a domain with an exception", "[objects]\na = { members = \"domain:example.org\", except = \"192.0.2.1\" }".into(), "`except` takes nothing out of a list of addresses"),
        ("33 domains", rule(&format!("destination = [{}]", domains(33))), "the policy has more than 32 lists, countries and domains | name what domains have in common"),
        ("a list of none", "[objects]\na = \"list:bad\"".into(), "2:5 there is no list `bad` | the policy has no lists"),
        ("a part that is not", "[rule]\nname = \"r\"".into(), "1:2 a policy has no key `rule` | did you mean `rules`?"),
        ("not TOML", "[[rules]\n".into(), "this is not TOML: "),
        ("a key twice", rule("action = \"deny\"\naction = \"deny\""), "the key `action` stands here for the second time in its table | give one"),
        ("letters of other languages", "[zones.büro]\ninterfaces = \"e9\"".into(), "this is not TOML: invalid unquoted key, expected letters, numbers, `-`, `_` | a key is made of letters from A to Z"),
        ("the same in quotes", "[zones.\"büro\"]\ninterfaces = \"e9\"".into(), "`büro` cannot be the name of a zone | letters from A to Z"),
        ("a name with a space", "[zones.\"the office\"]\ninterfaces = \"e9\"".into(), "`the office` cannot be the name of a zone | letters from A to Z, digits, `-` and `_`, no spaces"),
        ("a text without quotes", "[settings]\nforwarding = kernel".into(), "this is not TOML: string values must be quoted, expected literal string | write text in quotes"),
        ("a port without a protocol", rule("service = \"80\""), "there is no service `80` | write \"tcp/80\" or \"udp/80\""),
        ("a colon for a slash", rule("service = \"tcp:80\""), "there is no service `tcp:80` | write \"tcp/80\""),
        ("a space for a slash", rule("service = \"udp 5000:5010\""), "there is no service `udp 5000:5010` | write \"udp/5000-5010\""),
        ("ports in a row", rule("service = \"tcp/80,443\""), "`tcp/80,443` is not a service | write [\"tcp/80\", \"tcp/443\"]"),
        ("ports that nobody has", rule("service = \"tcp/99999\""), "`tcp/99999` is not a service | write a port"),
    ];
    for (what, text, expected) in rows {
        let errors = errors(&text);
        assert!(
            errors.iter().any(|e| e.contains(expected)),
            "{what}: expected {expected:?} among {errors:#?}"
        );
    }
}

#[test]
fn zones_are_checked() {
    for (text, expected) in [
        ("", "the policy has no zones"),
        ("[zones]\na = { }", "has no `interfaces`"),
        ("[zones]\nself = { interfaces = \"e0\" }", "the name `self` is taken"),
        (
            "[zones]\na = { interfaces = \"e0\" }\nb = { interfaces = \"e0\" }",
            "the interface `e0` is in the zone `a` already",
        ),
        ("[zones]\na = { interfaces = \"an-interface-name\" }", "is not the name of an interface"),
        ("[zones]\na = { interfaces = \"*\" }", "`*` is no pattern of interfaces"),
        ("[zones]\na = { interfaces = \"p*p\" }", "`p*p` is no pattern of interfaces"),
        ("[zones]\na = { interfaces = \"p**\" }", "`p**` is no pattern of interfaces"),
        ("[zones]\na = { interfaces = \"an-interface-na*\" }", "is no pattern of interfaces"),
        ("[zones]\na = 5", "`a` must be a table with `interfaces`, not an integer"),
    ] {
        let problems = Policy::parse("p.toml", text).unwrap_err().to_string();
        assert!(problems.contains(expected), "{text}: {problems}");
    }
}

#[test]
fn patterns_that_overlap_are_reported_at_both_places() {
    let text = |a: &str, b: &str| format!("[zones]\na = {{ interfaces = {a} }}\nb = {{ interfaces = {b} }}");
    for (a, b, expected) in [
        (
            "'veth*'",
            "'veth-guest*'",
            &[
                "2:20: `veth*` matches names that `veth-guest*` of the zone `b` matches",
                "3:20: `veth-guest*` matches names that `veth*` of the zone `a` matches",
            ][..],
        ),
        ("'veth-guest*'", "'v*'", &["2:20: ", "3:20: "]),
        ("['p*', 'q*']", "['r*', 'q*']", &["2:27: ", "3:27: "]),
        ("['p*', 'px*']", "'e0'", &["2:21: ", "2:27: "]),
        ("['pa*', 'pc*']", "['pb*', 'p', 'pc0']", &[]),
    ] {
        let problems = Policy::parse("p.toml", &text(a, b))
            .map_or_else(|problems| problems.list().to_vec(), |_| Vec::new());
        let reported: Vec<String> =
            problems.iter().map(|it| format!("{}:{}: {}", it.line, it.column, it.message)).collect();
        assert_eq!(reported.len(), expected.len(), "{a} {b}: {reported:?}");
        assert!(
            reported.iter().zip(expected).all(|(reported, expected)| reported.starts_with(expected)),
            "{reported:?}"
        );
    }
}

#[test]
fn an_interface_is_in_the_zone_that_names_it_and_else_in_that_of_its_pattern() {
    let text = "[zones]\na = { interfaces = ['ppp*', 'e0'] }\nb = { interfaces = ['ppp7', 'wg-*'] }";
    let policy = Policy::parse("p.toml", text).unwrap();
    for (interface, zone) in [
        ("ppp0", Some("a")),
        ("ppp", Some("a")),
        ("ppp7", Some("b")),
        ("ppp77", Some("a")),
        ("wg-home", Some("b")),
        ("wg0", None),
        ("e0", Some("a")),
        ("e00", None),
        ("", None),
    ] {
        assert_eq!(policy.zone_of_interface(interface).map(|zone| zone.name.as_str()), zone, "{interface}");
    }
}

#[test]
fn several_mistakes_are_reported_at_once_in_the_order_of_the_text() {
    let text =
        format!("{}{}", rule("source = \"lan\"\nservice = \"htp\""), rule("name = \"q\"\naction = \"drop\""));
    let lines: Vec<String> = errors(&text).iter().map(|e| e.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(lines, ["2:10", "3:11", "10:10"]);
}

#[test]
fn a_mistake_is_reported_once() {
    for (text, once) in [
        (rule("name = 5"), "2:8 `name` must be a string, not an integer | "),
        (rule("limit = { rate = 5 }"), "2:18 `rate` must be a string, not an integer | "),
        (rule("limit = { rate = 5, burst = 2 }"), "2:18 `rate` must be a string, not an integer | "),
        (rule("limit = { connections = 0 }"), "2:25 `connections` must lie between 1 and 16777216 | "),
        (
            format!("{}[schedules.night]\ntimes = \"daily\"\ntime_zone = 5\n", rule("schedule = \"night\"")),
            "9:13 `time_zone` must be a string, not an integer | ",
        ),
    ] {
        assert_eq!(errors(&text), [once], "{text}");
    }
    // Of all such addresses, which lists of what nobody may have name, nothing is wrong.
    assert!(errors(&rule("source = [\"::ffff:0:0/96\", \"::/8\"]")).is_empty());
}

#[test]
fn what_names_a_definition_that_was_refused_is_not_refused_for_that() {
    let many: String = (0..MAX_ZONES).map(|i| format!("[zones.z{i}]\ninterfaces = \"x{i}\"\n")).collect();
    let last = format!("z{}", MAX_ZONES - 1);
    let rule = |keys: &str| format!("[[rules]]\nname = \"r\"\n{keys}\naction = \"allow\"\n");
    for (what, text, expected) in [
        (
            "a zone's name, and its interface in a bridge",
            format!(
                "{ZONES}[zones.\"büro\"]\ninterfaces = \"e9\"\n[bridges.b]\ninterfaces = [\"e1\", \"e9\"]\n{}",
                rule("from = \"büro\"\nto = \"out\"")
            ),
            "`büro` cannot be the name of a zone",
        ),
        (
            "a zone's form",
            format!("{ZONES}x = 5\n{}", rule("from = \"x\"\nto = [\"x\", \"in\"]")),
            "`x` must be a table",
        ),
        (
            "too many zones",
            format!("{many}{}", rule(&format!("from = \"{last}\"\nto = \"z0\""))),
            "too many zones",
        ),
        (
            "an object's name",
            format!(
                "[objects]\n\"a b\" = \"192.0.2.1\"\n{}",
                rule("from = \"in\"\nto = \"out\"\nsource = \"a b\"")
            ),
            "`a b` cannot be the name of an object",
        ),
        (
            "an object's form",
            format!("[objects]\na = 5\n{}", rule("from = \"in\"\nto = \"out\"\nsource = \"a\"")),
            "`a` must be a string, or strings in [ ], not an integer",
        ),
        (
            "a service's form",
            format!("[services]\na = true\n{}", rule("from = \"in\"\nto = \"out\"\nservice = \"a\"")),
            "`a` must be a string, or strings in [ ], not a boolean",
        ),
        (
            "a schedule's form",
            format!("[schedules]\na = true\n{}", rule("from = \"in\"\nto = \"out\"\nschedule = \"a\"")),
            "`a` must be ",
        ),
        (
            "a list's name",
            format!(
                "[lists.\"a b\"]\nfile = \"x\"\n{}",
                rule("from = \"in\"\nto = \"out\"\nsource = \"list:a b\"")
            ),
            "`a b` cannot be the name of a list",
        ),
    ] {
        let text = if text.starts_with("[zones") { text } else { format!("{ZONES}{text}") };
        let problems = Policy::parse("p.toml", &text).unwrap_err();
        let said: Vec<String> = problems.list().iter().map(|problem| problem.message.clone()).collect();
        assert_eq!(said.len(), 1, "{what}: {said:#?}");
        assert!(said[0].contains(expected), "{what}: {said:?}");
    }
}

#[test]
fn hostile_texts_end_soon() {
    let nested: String = (0..5_000).map(|i| format!("g{i} = [\"g{}\"]\n", i + 1)).collect();
    let wide = rule(&format!("source = [{}]", "\"nobody\",".repeat(20_000)));
    let doubled: String =
        (0..14).map(|i| format!("g{} = [\"g{i}\", \"g{i}\", \"10.0.{i}.0/24\"]\n", i + 1)).collect();
    assert!(errors(&format!("[objects]\n{nested}")).iter().any(|e| e.contains("too deep")));
    assert!(errors(&wide).last().unwrap().contains("there may be more"));
    assert!(errors(&format!("[objects]\ng0 = \"10.9.0.0/16\"\n{doubled}")).is_empty());
    assert!(!errors(&format!("a = {}1{}", "[".repeat(100_000), "]".repeat(100_000))).is_empty());
}

/// Ranges of ports within ranges, of source and destination: neither trees nor tables by classes hold so many kinds of packets.
#[test]
fn a_rule_set_that_no_method_holds_is_refused_with_what_to_change() {
    const RULES: u32 = 4_300;
    let mut text = "[zones]\nin = { interfaces = \"e1\" }\nout = { interfaces = \"e0\" }\n".to_owned();
    for i in (0..RULES).rev() {
        let ports = format!("{}-{}", 1 + 7 * i, 65_534 - 7 * i);
        for (kind, what) in [
            ("d", format!("service = \"tcp/{ports}\"")),
            ("s", format!("service = \"tcp\"\nsource_port = \"{ports}\"")),
        ] {
            let action = ["allow", "deny"][(i % 2) as usize];
            text += &format!(
                "[[rules]]\nname = \"{kind}{i}\"\nfrom = \"in\"\nto = \"out\"\n{what}\naction = \"{action}\"\n"
            );
        }
    }
    let policy = Policy::parse("p.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
    let built = policy::Tables::build(&policy, jiff::Timestamp::UNIX_EPOCH);
    let why = built.map_or_else(|error| error.to_string(), |_| "it is held".to_owned());
    assert!(
        why.contains("more than 16777216 combinations; use fewer zones, fewer rules with `source_port`"),
        "{why}"
    );
}

/// Thousands of addresses and thousands of ports, each by itself, beside a list: that are millions of parts, where rules without lists have other methods.
#[test]
fn rules_with_lists_that_cannot_be_searched_are_refused_with_what_to_change() {
    let addresses: Vec<String> = (0..3_000u32).map(|i| format!("\"10.{}.{}.0\"", i >> 8, i & 255)).collect();
    let ports: Vec<String> = (0..1_500).map(|i| format!("\"tcp/{}\"", 1 + 2 * i)).collect();
    let text = |source: &str| {
        format!(
            "[zones]\nin = {{ interfaces = 'e1' }}\nout = {{ interfaces = 'e0' }}\n[lists.bad]\nentries = '192.0.2.1'\nblock = 'source'\n\
             [[rules]]\nname = 'r'\nfrom = 'in'\nto = 'out'\nsource = '{source}'\naction = 'deny'\n\
             destination = [{}]\nservice = [{}]\n",
            addresses.join(", "),
            ports.join(", ")
        )
    };
    for (source, expected) in [
        ("192.0.2.0/24", ""),
        (
            "list:bad",
            "the rules that name lists of addresses overlap too much to be searched: name fewer lists, or fewer addresses and services",
        ),
    ] {
        let policy = Policy::parse("p.toml", &text(source)).unwrap_or_else(|problems| panic!("{problems}"));
        let built = policy::Tables::build(&policy, jiff::Timestamp::UNIX_EPOCH);
        let why = built.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(why.starts_with(expected) && why.is_empty() == expected.is_empty(), "{source}: {why}");
    }
}
