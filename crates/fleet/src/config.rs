//! `fleet.toml`: where the server of the fleet is, and which firewall this is. Pure.

use crate::key::PublicKey;
use std::path::PathBuf;
use toml_reader::{Collector, Located, Problems, Section, parse, texts};

/// Where an agent and whoever directs it look for their configuration.
pub const FILE: &str = "/etc/rampart/fleet.toml";
/// From there on a policy names the files of its lists, unless the configuration says otherwise.
const FOLDER: &str = "/etc/rampart";
/// Names become parts of subjects and keys of NATS.
const LONGEST_NAME: usize = 64;

/// A configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where the server is.
    pub server: Address,
    /// Which firewall this is; absent where somebody directs and no agent runs.
    pub agent: Option<Agent>,
}

/// Where the server is, and how it is spoken with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `nats://HOST:PORT` or `tls://HOST:PORT`.
    pub url: String,
    /// Certificates of authorities, in PEM; without it those of the machine.
    pub ca_file: Option<PathBuf>,
    /// User, with the file of its password.
    pub user: Option<(String, PathBuf)>,
}

/// Which firewall this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// The group whose policies it takes.
    pub group: String,
    /// Who may sign those.
    pub trust: Vec<PublicKey>,
    /// From there on policies name the files of their lists.
    pub folder: PathBuf,
}

impl Config {
    /// Reads a configuration. `file` is its name in messages.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problems> {
        let mut c = Collector::new(file, text);
        let config = read(&mut c);
        match config {
            Some(config) if c.is_empty() => Ok(config),
            _ => Err(c.into_problems()),
        }
    }
}

fn read(c: &mut Collector<'_>) -> Option<Config> {
    let table = parse(c)?;
    let root = Section::root(&table, "the configuration of a fleet");
    let server = address(&root, c);
    let agent = root.section("agent", "[agent]", c).map(|section| agent(&section, c));
    root.finish(c);
    Some(Config { server: server?, agent: agent.unwrap_or_default() })
}

fn address(root: &Section<'_>, c: &mut Collector<'_>) -> Option<Address> {
    let url = root.required_text("server", "\"tls://nats.example.net:4222\"", c);
    let ca_file = root.text("ca_file", c).map(|path| PathBuf::from(path.value));
    let user = root.text("user", c);
    let password = root.text("password_file", c);
    if user.is_some() != password.is_some() {
        let (there, missing) =
            if user.is_some() { ("user", "password_file") } else { ("password_file", "user") };
        let help = format!("write {missing} = \"...\" beside it");
        c.report(root.key_span(there), format!("`{there}` stands without `{missing}`"), Some(help));
    }
    let url = url?;
    if !["nats://", "tls://"]
        .iter()
        .any(|scheme| url.value.len() > scheme.len() && url.value.starts_with(scheme))
    {
        let help = "write \"tls://nats.example.net:4222\", or nats:// where nobody can read along".to_owned();
        c.report(url.span.clone(), "this is no address of a server of NATS", Some(help));
        return None;
    }
    let user = user.zip(password).map(|(user, file)| (user.value.to_owned(), PathBuf::from(file.value)));
    Some(Address { url: url.value.to_owned(), ca_file, user })
}

fn agent(section: &Section<'_>, c: &mut Collector<'_>) -> Option<Agent> {
    let name = section.required_text("name", "\"zurich-1\"", c);
    let group = section.required_text("group", "\"branches\"", c);
    let names = [&name, &group].map(|text| text.as_ref().is_some_and(|text| check_located(text, c)));
    let example = "[\"ed25519:...\"]";
    let trust = section.value("trust").map(|value| texts(value, "trust", c).unwrap_or_default());
    if trust.is_none() {
        section.missing("trust", example, c);
    }
    let trust: Vec<_> = trust.unwrap_or_default().iter().map(|text| key(text, c)).collect();
    let folder = section.text("folder", c).map_or(FOLDER, |folder| folder.value);
    if !folder.starts_with('/') {
        let help = "write it from the root on, as folder = \"/etc/rampart\"".to_owned();
        c.report(section.key_span("folder"), "`folder` does not begin at the root", Some(help));
    }
    let agent = Agent {
        name: name?.value.to_owned(),
        group: group?.value.to_owned(),
        trust: trust.into_iter().collect::<Option<_>>()?,
        folder: PathBuf::from(folder),
    };
    (names == [true, true] && !agent.trust.is_empty()).then_some(agent)
}

fn check_located(text: &Located<&str>, c: &mut Collector<'_>) -> bool {
    match check_name(text.value) {
        Ok(()) => true,
        Err(why) => {
            c.report(text.span.clone(), why, None);
            false
        }
    }
}

fn key(text: &Located<&str>, c: &mut Collector<'_>) -> Option<PublicKey> {
    text.value.parse().map_err(|why: String| c.report(text.span.clone(), why, None)).ok()
}

/// Whether an agent or a group may have a name.
///
/// # Errors
/// It may not: which it may have.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(format!(
        "{:?} is no name: letters, digits, `-` and `_`, {LONGEST_NAME} at most",
        toml_reader::shortened(name)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

    #[test]
    fn a_configuration_says_where_and_who() {
        let text = format!(
            "server = 'tls://nats.example.net:4222'\nuser = 'zurich-1'\npassword_file = '/etc/rampart/fleet-password'\n\
             ca_file = '/etc/rampart/ca.pem'\n[agent]\nname = 'zurich-1'\ngroup = 'branches'\ntrust = ['{KEY}']"
        );
        let config = Config::parse("fleet.toml", &text).unwrap();
        let agent = config.agent.unwrap();
        assert_eq!((agent.name.as_str(), agent.group.as_str()), ("zurich-1", "branches"));
        assert_eq!(agent.trust, vec![KEY.parse().unwrap()]);
        assert_eq!(agent.folder, PathBuf::from("/etc/rampart"));
        assert_eq!(config.server.user.unwrap().0, "zurich-1");
        let plain = Config::parse("f", "server = 'nats://127.0.0.1:4222'").unwrap();
        assert_eq!(plain.agent, None);
    }

    #[test]
    fn the_guide_shows_a_right_one() {
        const GUIDE: &str = include_str!("../../../docs/guide/fleet.md");
        let blocks: Vec<&str> =
            GUIDE.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        let [block] = blocks[..] else { panic!("the guide has {} configurations", blocks.len()) };
        let config = Config::parse("fleet.toml", block).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(config.agent.map(|agent| agent.group), Some("branches".to_owned()));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, expected) in [
            ("", "f:1:1: the configuration of a fleet has no `server`"),
            ("server = 'example.net'", "f:1:10: this is no address of a server of NATS"),
            ("server = 'tls://'", "f:1:10: this is no address"),
            ("server = 'nats://a'\nuser = 'u'", "f:2:1: `user` stands without `password_file`"),
            ("server = 'nats://a'\nsever = 1", "f:2:1: the configuration of a fleet has no key `sever`"),
            (
                "server = 'nats://a'\n[agent]\nname = 'a.b'\ngroup = 'g'\ntrust = []",
                "f:3:8: \"a.b\" is no name",
            ),
            ("server = 'nats://a'\n[agent]\nname = 'a'\ngroup = 'g'", "f:2:1: [agent] has no `trust`"),
            (
                "server = 'nats://a'\n[agent]\nname = 'a'\ngroup = 'g'\ntrust = ['x']",
                "f:5:10: a public key is",
            ),
            (
                "server = 'nats://a'\n[agent]\nname = 'a'\ngroup = 'g'\ntrust = ['x']\nfolder = 'here'",
                "f:6:1: `folder` does not begin",
            ),
        ] {
            let problems = Config::parse("f", text).unwrap_err().to_string();
            assert!(problems.contains(expected), "{text}: {problems}");
        }
    }
}
