//! `rampart check`: errors and warnings of a policy.

use crate::api::Problem;
use crate::cli::CheckArgs;
use crate::failure::Failure;
use policy::tables::{PROMISED_LINES, Tables};
use policy::{Policy, Warning};
use serde_json::{Value, json};
use std::process::ExitCode;

pub(crate) fn run(args: &CheckArgs, json: bool) -> Result<ExitCode, Failure> {
    let policy = crate::read_policy(&args.policy)?;
    // What cannot be built cannot be run: say so here and not when the firewall is started.
    let tables = Tables::build(&policy, crate::explain::now())
        .map_err(|error| Failure::Wrong(format!("{}: {error}", policy.file)))?;
    crate::kernel::can_forward(&policy).map_err(|error| Failure::Machine(error.to_string()))?;
    // An interface that is not here may be one of another machine.
    if let Some((_, why)) = crate::kernel::unfit(&policy).into_iter().next() {
        return Err(Failure::Wrong(format!("{}: {why}", policy.file)));
    }
    let warnings = policy.warnings();
    if json {
        let warnings: Vec<Value> = warnings.iter().map(warning_json).collect();
        let [ipv4, ipv6] = tables.bounds();
        let look_up = json!({
            "method": tables.method.name(), "most_lines": { "ipv4": ipv4, "ipv6": ipv6 }, "keeps_promise": tables.keeps_promise(),
        });
        println!(
            "{:#}",
            json!({
                "ok": true, "errors": [], "warnings": warnings, "rules": policy.rules.len(), "look_up": look_up,
            })
        );
    } else {
        print(&policy, &warnings);
        println!("{}", look_up_words(&tables));
    }
    let fails = args.strict && !warnings.is_empty();
    Ok(if fails { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn print(policy: &Policy, warnings: &[Warning]) {
    for warning in warnings {
        println!("{}: {}", warning.kind.name(), warning.problem);
        if let Some(help) = &warning.problem.help {
            println!("  {help}");
        }
    }
    let zones: Vec<&str> = policy.zones.iter().map(|zone| zone.name.as_str()).collect();
    println!(
        "{}: {} rules between the zones {}: no errors, {}",
        policy.file,
        policy.rules.len(),
        zones.join(", "),
        match warnings.len() {
            0 => "no warnings".to_owned(),
            1 => "1 warning".to_owned(),
            n => format!("{n} warnings"),
        }
    );
}

/// What a new flow costs under the policy.
fn look_up_words(tables: &Tables) -> String {
    let [ipv4, ipv6] = tables.bounds();
    let [promised_ipv4, promised_ipv6] = PROMISED_LINES;
    let method = tables.method.words();
    let bounds = format!(
        "a new flow is looked up by {method}: at most {ipv4} lines of memory with IPv4, {ipv6} with IPv6"
    );
    if tables.keeps_promise() {
        return bounds;
    }
    format!(
        "{bounds}. That is above the {promised_ipv4} and {promised_ipv6} that most policies keep, because too many rules overlap in \
         all fields: new flows take longer to open"
    )
}

fn warning_json(warning: &Warning) -> Value {
    let mut value = json!(Problem::from(&warning.problem));
    value["kind"] = json!(warning.kind.name());
    value["rule"] = json!(warning.rule);
    value["by"] = json!(warning.by);
    value
}
