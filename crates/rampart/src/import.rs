//! `rampart import`: the rules of another firewall as a policy.

use crate::cli::{ImportArgs, ImportFormat};
use crate::failure::Failure;
use crate::output::say;
use policy_import::{Format, Imported, Kind, Options, Source};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(args: &ImportArgs, json: bool) -> Result<ExitCode, Failure> {
    let sources = args.files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let format = match args.format {
        ImportFormat::Nft => Format::Nft,
        ImportFormat::IptablesSave => Format::IptablesSave,
        ImportFormat::Ufw => Format::Ufw,
    };
    let options = Options {
        interfaces: args.interfaces.clone(),
        addresses: args.addresses.clone(),
        answers: args.answers,
    };
    let imported = policy_import::import(format, &sources, &options)
        .map_err(|mistake| Failure::Wrong(mistake.to_string()))?;
    let out = if json { format!("{:#}\n", as_json(&imported)) } else { imported.policy.clone() };
    if !json {
        imported.findings.iter().for_each(|finding| say(format_args!("{finding}")));
        say(format_args!("{}", summary(&imported)));
    }
    crate::output::print(&out);
    Ok(if args.strict && !imported.is_exact() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn read(file: &Path) -> Result<Source, Failure> {
    if file != Path::new("-") {
        let (name, text) = crate::read_text(file)?;
        return Ok(Source { name, text });
    }
    let wrong = |why: String| Failure::Wrong(format!("cannot read standard input: {why}"));
    let bytes = crate::whole_file::read_from(std::io::stdin()).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is no UTF-8".to_owned()))?;
    Ok(Source { name: "standard input".to_owned(), text })
}

fn summary(imported: &Imported) -> String {
    let count = |kind| imported.findings.iter().filter(|finding| finding.kind == kind).count();
    let (left_out, wider, notes) = (count(Kind::LeftOut), count(Kind::Wider), count(Kind::Note));
    let less = match left_out + wider {
        0 => "the policy allows what they allow".to_owned(),
        _ => format!("less is allowed than before: {left_out} left out, {wider} refuse more"),
    };
    let rules = imported.rules;
    format!(
        "{}: {} carried over, {} that give nothing in the policy, each named above; {less}; {}",
        crate::table::rules(rules.read as u64),
        rules.carried,
        rules.said,
        crate::table::of(notes as u64, "note")
    )
}

fn as_json(imported: &Imported) -> Value {
    let findings: Vec<Value> = imported
        .findings
        .iter()
        .map(|finding| {
            json!({
                "file": finding.file, "line": finding.line, "column": finding.column, "kind": finding.kind.name(),
                "text": finding.text, "why": finding.why,
            })
        })
        .collect();
    let rules = imported.rules;
    json!({
        "ok": true, "exact": imported.is_exact(), "policy": imported.policy, "findings": findings,
        "rules": { "read": rules.read, "carried": rules.carried, "not_carried": rules.said },
    })
}
