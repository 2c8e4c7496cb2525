//! Commands of clients (RFC 959 section 4.1, RFC 2389, RFC 2428, RFC 3659): a list, and what each means to the gateway. What is not in it is not carried.

use super::LONGEST_LINE;
use crate::http::Fault;

/// What a command means to the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Who logs in, and where.
    User,
    /// The end.
    Quit,
    /// Where the client waits for the data connection.
    Port,
    /// The same, in the extended form.
    ExtendedPort,
    /// The client wants to connect.
    Passive,
    /// The same, in the extended form.
    ExtendedPassive,
    /// A transfer is to end.
    Abort,
    /// The server answers it, and rules are not about it.
    Plain,
    /// The server answers it, if a rule allows it.
    Judged,
    /// A transfer to the client, if a rule allows it.
    Download,
    /// A transfer to the server, if a rule allows it.
    Upload,
    /// Encryption, which the gateway could not read (RFC 4217).
    Security,
}

/// A verb as it is sent, the verb that servers get, and what it means.
type Verb = (&'static str, &'static str, Means);

#[rustfmt::skip]
const VERBS: [Verb; 52] = [
    ("USER", "USER", Means::User), ("PASS", "PASS", Means::Plain), ("ACCT", "ACCT", Means::Plain), ("QUIT", "QUIT", Means::Quit),
    ("CWD", "CWD", Means::Plain), ("XCWD", "CWD", Means::Plain), ("CDUP", "CDUP", Means::Plain), ("XCUP", "CDUP", Means::Plain),
    ("PWD", "PWD", Means::Plain), ("XPWD", "PWD", Means::Plain),
    ("TYPE", "TYPE", Means::Plain), ("STRU", "STRU", Means::Plain), ("MODE", "MODE", Means::Plain), ("REST", "REST", Means::Plain),
    ("ALLO", "ALLO", Means::Plain), ("SYST", "SYST", Means::Plain), ("HELP", "HELP", Means::Plain), ("NOOP", "NOOP", Means::Plain),
    ("FEAT", "FEAT", Means::Plain), ("OPTS", "OPTS", Means::Plain), ("ABOR", "ABOR", Means::Abort),
    ("PORT", "PORT", Means::Port), ("EPRT", "EPRT", Means::ExtendedPort),
    ("PASV", "PASV", Means::Passive), ("EPSV", "EPSV", Means::ExtendedPassive),
    ("RETR", "RETR", Means::Download), ("LIST", "LIST", Means::Download), ("NLST", "NLST", Means::Download), ("MLSD", "MLSD", Means::Download),
    ("STOR", "STOR", Means::Upload), ("STOU", "STOU", Means::Upload), ("APPE", "APPE", Means::Upload),
    ("STAT", "STAT", Means::Judged), ("MLST", "MLST", Means::Judged), ("SIZE", "SIZE", Means::Judged), ("MDTM", "MDTM", Means::Judged),
    ("MFMT", "MFMT", Means::Judged), ("DELE", "DELE", Means::Judged), ("RMD", "RMD", Means::Judged), ("XRMD", "RMD", Means::Judged),
    ("MKD", "MKD", Means::Judged), ("XMKD", "MKD", Means::Judged), ("RNFR", "RNFR", Means::Judged), ("RNTO", "RNTO", Means::Judged),
    ("AUTH", "AUTH", Means::Security), ("ADAT", "ADAT", Means::Security), ("PBSZ", "PBSZ", Means::Security), ("PROT", "PROT", Means::Security),
    ("CCC", "CCC", Means::Security), ("MIC", "MIC", Means::Security), ("CONF", "CONF", Means::Security), ("ENC", "ENC", Means::Security),
];

/// Digits that a time begins with at least: those of a day.
const TIME: usize = 8;

/// Bytes of Telnet (RFC 854) that clients send before `ABOR`: IAC, IP and DM.
const TELNET: [u8; 3] = [0xff, 0xf4, 0xf2];

/// A command of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Its verb, as servers get it.
    pub verb: &'static str,
    /// What follows the first space.
    pub argument: Option<Vec<u8>>,
    /// What it means.
    pub means: Means,
}

/// Verbs that rules know by another: who may have a file may ask for its size, and who may list it may do so in every form.
const JUDGED_AS: [(&str, &str); 5] =
    [("SIZE", "RETR"), ("MDTM", "RETR"), ("MLSD", "LIST"), ("MLST", "LIST"), ("STAT", "LIST")];

/// The verb by which rules know a verb.
pub fn judged_as(verb: &str) -> &str {
    JUDGED_AS.iter().find(|(sent, _)| *sent == verb).map_or(verb, |(_, judged)| judged)
}

impl Command {
    /// The line that a server gets.
    pub fn line(&self) -> Vec<u8> {
        let mut line = self.verb.as_bytes().to_vec();
        if let Some(argument) = &self.argument {
            line.push(b' ');
            line.extend(argument);
        }
        line.extend(b"\r\n");
        line
    }

    /// The verb by which rules know it. `MDTM` with a time before the name sets the time, at servers that know it so (vsftpd as it is
    /// installed, Serv-U, NcFTPd): it is what `MFMT` is.
    pub fn judged_as(&self) -> &'static str {
        let argument = self.argument.as_deref().unwrap_or_default();
        let has_time = argument.len() > TIME && argument[..TIME].iter().all(u8::is_ascii_digit);
        match self.verb {
            "MDTM" if has_time && argument.contains(&b' ') => "MFMT",
            verb => verb,
        }
    }

    /// The argument for people; what is secret is left out.
    pub fn shown(&self) -> Option<String> {
        let argument = self.argument.as_ref().filter(|_| !matches!(self.verb, "PASS" | "ACCT"))?;
        Some(String::from_utf8_lossy(argument).into_owned())
    }
}

/// The verbs that rules are about.
pub fn judged() -> impl Iterator<Item = &'static str> {
    let is_judged = |means| matches!(means, Means::Judged | Means::Download | Means::Upload);
    VERBS.iter().filter(move |(_, _, means)| is_judged(*means)).map(|(_, verb, _)| judged_as(verb))
}

/// Reads a line, without its end.
///
/// # Errors
/// It is none of the list, or a server could read something else in it.
pub fn read(line: &[u8]) -> Result<Command, Fault> {
    if line.len() > LONGEST_LINE {
        return Err(Fault::with_status(500, "line-too-long"));
    }
    let start = line.iter().position(|byte| !TELNET.contains(byte)).unwrap_or(line.len());
    let line = &line[start..];
    // IAC begins a command of Telnet wherever it stands.
    if line.iter().any(|byte| byte.is_ascii_control() || *byte == 0xff) {
        return Err(Fault::with_status(501, "control-character"));
    }
    let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    let (word, argument) = (&line[..end], line.get(end + 1..));
    let found = VERBS.iter().find(|(sent, _, _)| word.eq_ignore_ascii_case(sent.as_bytes()));
    let (_, verb, means) = *found.ok_or(Fault::with_status(502, "command"))?;
    let argument = argument.filter(|argument| !argument.is_empty()).map(<[u8]>::to_vec);
    let command = Command { verb, argument, means };
    check(&command)?;
    // Without an argument it is about the session.
    let is_plain = verb == "STAT" && command.argument.is_none();
    Ok(if is_plain { Command { means: Means::Plain, ..command } } else { command })
}

/// The verb of a line that is not carried, for people.
pub fn word(line: &[u8]) -> Option<String> {
    let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    let is_word = (1..=8).contains(&word.len()) && word.iter().all(u8::is_ascii_alphanumeric);
    is_word.then(|| String::from_utf8_lossy(word).to_ascii_uppercase())
}

/// What the gateway does not carry of commands that it does.
fn check(command: &Command) -> Result<(), Fault> {
    let argument = command.argument.as_deref().unwrap_or_default();
    let first = argument.split(|byte| *byte == b' ').next().unwrap_or_default();
    let is_one_of =
        |text: &[u8], words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()));
    match command.verb {
        "AUTH" | "ADAT" | "PBSZ" | "CCC" | "MIC" | "CONF" | "ENC" => {
            Err(Fault::with_status(502, "encryption"))
        }
        "PROT" => Err(Fault::with_status(534, "encryption")),
        "TYPE" if !is_one_of(argument, &["A", "A N", "I", "L 8"]) => {
            Err(Fault::with_status(504, "parameter"))
        }
        "STRU" if !is_one_of(argument, &["F"]) => Err(Fault::with_status(504, "parameter")),
        "MODE" if !is_one_of(argument, &["S"]) => Err(Fault::with_status(504, "parameter")),
        "OPTS" if !is_one_of(first, &["UTF8", "MLST"]) => Err(Fault::with_status(501, "parameter")),
        "REST" if argument.is_empty() || !argument.iter().all(u8::is_ascii_digit) => {
            Err(Fault::with_status(501, "parameter"))
        }
        "USER" | "CWD" | "RETR" | "STOR" | "APPE" | "DELE" | "RMD" | "MKD" | "RNFR" | "RNTO" | "SIZE"
        | "MDTM" | "MFMT" | "PORT" | "EPRT"
            if argument.is_empty() =>
        {
            Err(Fault::with_status(501, "parameter"))
        }
        _ => Ok(()),
    }
}
