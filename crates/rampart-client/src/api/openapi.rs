//! The operations of the socket, once, for the server that answers them and for the OpenAPI description of them.

use super::filter::KEYS;
use super::{
    Applied, AuditTrail, Blocks, Confirmed, Down, Drops, EVENTS_SHOWN, Events, FLOWS_SHOWN, Flows, History,
    KeptPolicy, Killed, Lists, NewPolicy, Refusal, Restored, Rules, Stations, Status, Unblocked,
};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// An operation of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Show the state of the firewall.
    Status,
    /// List the rules with their counters.
    Rules,
    /// Show the lists of addresses with their counters.
    Lists,
    /// List the flows that pass a filter.
    Flows,
    /// End the flows that pass a filter.
    EndFlows,
    /// List the sources that are blocked because they scanned.
    Blocks,
    /// End blocks.
    EndBlocks,
    /// List the stations of bridges.
    Stations,
    /// Count dropped packets by reason.
    Drops,
    /// Read the event log.
    Log,
    /// Read the audit trail.
    Audit,
    /// Apply a policy.
    Apply,
    /// Confirm the policy in force.
    Confirm,
    /// List the policies that were put in force.
    History,
    /// Read the policy in force, or one of the history.
    Policy,
    /// Go back to a policy of the history.
    Rollback,
    /// Put the policy of a new firewall in force.
    FactoryReset,
    /// Read the metrics.
    Metrics,
    /// Make a backup.
    Backup,
    /// Restore a backup.
    Restore,
    /// Take the firewall down.
    Down,
}

/// How to request an operation.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// Method of HTTP, for example `GET`.
    pub method: &'static str,
    /// Path, for example `/v1/status`.
    pub path: &'static str,
    /// The operation.
    pub operation: Operation,
    summary: &'static str,
    answer: fn(&mut SchemaGenerator) -> Schema,
    refusals: &'static [(u16, &'static str)],
    /// What the body of a request is, and that of an answer.
    bodies: (Body, Body),
}

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// JSON; of a request, a policy to apply.
    Json,
    /// A backup.
    Backup,
    /// Metrics in Prometheus' text format.
    Metrics,
    /// There is none.
    Nothing,
}

const WRONG_FILTER: (u16, &str) = (400, "A filter is wrong.");
const MACHINE: (u16, &str) = (500, "The kernel refused an operation.");
const GOING: (u16, &str) = (503, "The firewall is being taken down.");
const WRONG_QUERY: (u16, &str) = (400, "The operation takes no query.");
const READER: (u16, &str) =
    (403, "The socket only answers questions: this takes root or the group `rampart`.");
const TOO_OFTEN: (u16, &str) = (429, "A user other than root changes the firewall too often.");

/// Every operation with its path.
pub const ROUTES: [Route; 21] = [
    route::<Status>(
        "GET",
        "/v1/status",
        Operation::Status,
        "Show the state of the firewall",
        &[WRONG_QUERY, MACHINE, GOING],
    ),
    route::<Rules>(
        "GET",
        "/v1/rules",
        Operation::Rules,
        "List the rules with their counters",
        &[WRONG_QUERY, MACHINE, GOING],
    ),
    route::<Lists>(
        "GET",
        "/v1/lists",
        Operation::Lists,
        "Show the lists of addresses with their counters",
        &[WRONG_QUERY, MACHINE, GOING],
    ),
    route::<Flows>(
        "GET",
        "/v1/flows",
        Operation::Flows,
        "List the flows that pass a filter",
        &[WRONG_FILTER, MACHINE, GOING],
    ),
    route::<Killed>(
        "DELETE",
        "/v1/flows",
        Operation::EndFlows,
        "End the flows that pass a filter",
        &[WRONG_FILTER, READER, TOO_OFTEN, MACHINE, GOING],
    ),
    route::<Blocks>(
        "GET",
        "/v1/blocks",
        Operation::Blocks,
        "List the sources that are blocked because they scanned",
        &[WRONG_QUERY, MACHINE, GOING],
    ),
    route::<Unblocked>(
        "DELETE",
        "/v1/blocks",
        Operation::EndBlocks,
        "End blocks",
        &[(400, "An address is wrong, or nothing says which blocks."), READER, TOO_OFTEN, MACHINE, GOING],
    ),
    route::<Stations>(
        "GET",
        "/v1/stations",
        Operation::Stations,
        "List the Ethernet addresses that bridges have heard of",
        &[WRONG_QUERY, MACHINE, GOING],
    ),
    route::<Drops>(
        "GET",
        "/v1/drops",
        Operation::Drops,
        "Count dropped packets by reason",
        &[WRONG_QUERY, MACHINE, GOING],
    ),
    route::<Events>(
        "GET",
        "/v1/log",
        Operation::Log,
        "Read the event log: the newest events, or those after an event",
        &[(400, "A number is wrong."), MACHINE, GOING],
    ),
    route::<AuditTrail>(
        "GET",
        "/v1/audit",
        Operation::Audit,
        "Read the audit trail: who changed the firewall, or tried to",
        &[(400, "A number is wrong."), (500, "The files cannot be read."), GOING],
    ),
    Route {
        bodies: (Body::Json, Body::Json),
        ..route::<Applied>(
            "PUT",
            "/v1/policy",
            Operation::Apply,
            "Apply a policy: it takes the place of the one in force at once and as a whole",
            &REFUSED_POLICY,
        )
    },
    route::<Confirmed>(
        "POST",
        "/v1/policy/confirm",
        Operation::Confirm,
        "Confirm the policy in force, in place of which the previous one would come back",
        &[
            WRONG_NUMBER,
            READER,
            (409, "No policy needs to be confirmed, or another one than that."),
            TOO_OFTEN,
            GOING,
        ],
    ),
    route::<History>(
        "GET",
        "/v1/history",
        Operation::History,
        "List the policies that were put in force, with who did it and what came of them",
        &[WRONG_QUERY, (500, "The files cannot be read."), GOING],
    ),
    route::<KeptPolicy>(
        "GET",
        "/v1/policy",
        Operation::Policy,
        "Read the policy in force, or one of the history, as it was",
        &[WRONG_NUMBER, NO_ENTRY, (500, "The files cannot be read."), GOING],
    ),
    route::<Applied>(
        "POST",
        "/v1/policy/rollback",
        Operation::Rollback,
        "Go back to a policy of the history",
        &[WRONG_NUMBER, READER, NO_ENTRY, CANNOT_TAKE_OVER, CANNOT_APPLY, TOO_OFTEN, MACHINE, GOING],
    ),
    route::<Applied>(
        "POST",
        "/v1/policy/factory-reset",
        Operation::FactoryReset,
        "Put the policy of a new firewall in force: the zones stay, SSH and ping to the firewall are allowed, and nothing is forwarded",
        &[WRONG_NUMBER, READER, CANNOT_TAKE_OVER, CANNOT_APPLY, TOO_OFTEN, MACHINE, GOING],
    ),
    Route {
        bodies: (Body::Nothing, Body::Metrics),
        ..route::<()>(
            "GET",
            "/metrics",
            Operation::Metrics,
            "Read the metrics, in Prometheus' text format",
            &[WRONG_QUERY, MACHINE, GOING],
        )
    },
    Route {
        bodies: (Body::Nothing, Body::Backup),
        ..route::<()>(
            "GET",
            "/v1/backup",
            Operation::Backup,
            "Make a backup: the policy in force, the history, and copies of lists",
            &[
                WRONG_QUERY,
                READER,
                (413, "The policy in force alone is larger than a backup."),
                (500, "The files cannot be read."),
                GOING,
            ],
        )
    },
    Route {
        bodies: (Body::Backup, Body::Json),
        ..route::<Restored>(
            "PUT",
            "/v1/backup",
            Operation::Restore,
            "Restore a backup, which is checked as a whole before anything is changed",
            &REFUSED_BACKUP,
        )
    },
    route::<Down>(
        "POST",
        "/v1/down",
        Operation::Down,
        "Take the firewall down",
        &[WRONG_QUERY, READER, TOO_OFTEN, MACHINE, GOING],
    ),
];

const WRONG_NUMBER: (u16, &str) = (400, "A number is wrong.");
const NO_ENTRY: (u16, &str) = (404, "The history has no such entry.");
const CANNOT_TAKE_OVER: (u16, &str) = (
    409,
    "A running firewall cannot take this policy over: it has another size of flow table (`flows`), or another `forwarding`.",
);
const CANNOT_APPLY: (u16, &str) = (422, "The policy has errors, or the data plane cannot do what it says.");

const REFUSED_POLICY: [(u16, &str); 8] = refused_body("The body is no policy to apply.");
const REFUSED_BACKUP: [(u16, &str); 8] = refused_body("The body is no backup that this version reads.");

/// Why a body whose policy is to be put in force is refused.
const fn refused_body(wrong: &'static str) -> [(u16, &'static str); 8] {
    let large = (413, "The body is too large.");
    [(400, wrong), READER, CANNOT_TAKE_OVER, large, CANNOT_APPLY, TOO_OFTEN, MACHINE, GOING]
}

const fn route<A: JsonSchema>(
    method: &'static str,
    path: &'static str,
    operation: Operation,
    summary: &'static str,
    refusals: &'static [(u16, &'static str)],
) -> Route {
    let answer = SchemaGenerator::subschema_for::<A>;
    Route { method, path, operation, summary, answer, refusals, bodies: (Body::Nothing, Body::Json) }
}

const CONFIRM: (&str, &str) = (
    "confirm_seconds",
    "Seconds after which the previous policy comes back unless this one is confirmed, 1 to 86400.",
);

/// The path that an older name of it stands for.
fn today(path: &str) -> &str {
    if path == "/v1/sessions" { "/v1/flows" } else { path }
}

/// The routes of a path, with any method.
pub fn find(path: &str) -> impl Iterator<Item = &'static Route> {
    let path = today(path).to_owned();
    ROUTES.iter().filter(move |route| route.path == path)
}

impl Operation {
    /// How to request it.
    pub fn route(self) -> &'static Route {
        // Every operation stands in the table, which a test holds.
        ROUTES.iter().find(|route| route.operation == self).unwrap_or(&ROUTES[0])
    }

    /// Whether it changes the firewall. What does not may be requested by readers.
    pub const fn changes(self) -> bool {
        match self {
            Operation::EndFlows
            | Operation::EndBlocks
            | Operation::Apply
            | Operation::Confirm
            | Operation::Rollback
            | Operation::FactoryReset
            | Operation::Restore
            | Operation::Down => true,
            Operation::Status
            | Operation::Rules
            | Operation::Lists
            | Operation::Flows
            | Operation::Blocks
            | Operation::Stations
            | Operation::Drops
            | Operation::Log
            | Operation::Audit
            | Operation::History
            | Operation::Policy
            | Operation::Metrics
            | Operation::Backup => false,
        }
    }

    /// Whether readers may request it. A backup is for those who may restore it.
    pub const fn is_for_readers(self) -> bool {
        !self.changes() && !matches!(self, Operation::Backup)
    }

    /// Whether its request has a body.
    pub fn takes_body(self) -> bool {
        self.route().bodies.0 != Body::Nothing
    }

    /// What may stand in its query where that takes no filter.
    const fn own_query(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Operation::Log => &[
                (
                    "after",
                    "Number of an event: the answer has later events only. Without it, the answer has the newest.",
                ),
                ("limit", "Greatest number of events in the answer."),
            ],
            Operation::EndBlocks => &[
                ("source", "An address that is blocked."),
                ("zone", "Name of the zone that it came from."),
                ("all", "`true` to end every block; needed if there is neither a source nor a zone."),
            ],
            Operation::Audit => &[("limit", "Greatest number of records in the answer, the newest ones.")],
            Operation::Policy => {
                &[("number", "Number of an entry of the history; without it, the policy in force.")]
            }
            Operation::Confirm => &[(
                "number",
                "Number of an entry of the history: no other is confirmed. Without it, whichever waits.",
            )],
            Operation::Rollback => &[("number", "Number of an entry of the history."), CONFIRM],
            Operation::FactoryReset | Operation::Restore => &[CONFIRM],
            _ => &[],
        }
    }

    /// What may stand in its query besides filters, and what that takes; `None` where it has no query at all.
    pub const fn query(self) -> Option<(&'static str, &'static str)> {
        match self {
            Operation::Flows => Some(("limit", "Greatest number of flows in the answer.")),
            Operation::EndFlows => Some(("all", "`true` to end every flow; needed if there is no filter.")),
            _ => None,
        }
    }
}

/// The OpenAPI 3.1 description of the socket, as committed in `docs/schema/rampart-api.json`.
pub fn description() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for route in &ROUTES {
        let at = paths.entry(route.path).or_insert_with(|| json!({}));
        at[route.method.to_lowercase()] = operation(route, &mut generator);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Rampart",
            "version": "1",
            "description": "The API of the firewall's daemon: HTTP/1.1 on a Unix socket, one request per connection. A second socket, \
                whose name ends in `.read`, answers GET alone.",
            "license": { "name": "Apache-2.0 OR MIT" },
        },
        "paths": paths,
        "components": { "schemas": generator.take_definitions(true) },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let body = |schema: Schema| json!({ "application/json": { "schema": schema } });
    let backup =
        || json!({ "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } });
    let mut responses = Map::new();
    let content = match route.bodies.1 {
        Body::Backup => backup(),
        Body::Metrics => json!({ "text/plain": { "schema": { "type": "string" } } }),
        _ => body((route.answer)(generator)),
    };
    responses.insert("200".to_owned(), json!({ "description": "Done.", "content": content }));
    for (status, description) in route.refusals {
        let refusal = generator.subschema_for::<Refusal>();
        let response = json!({ "description": description, "content": body(refusal) });
        responses.insert(status.to_string(), response);
    }
    let mut described = json!({
        "operationId": format!("{:?}", route.operation),
        "summary": route.summary,
        "responses": responses,
    });
    if let Some(query) = route.operation.query() {
        described["parameters"] = parameters(query);
    }
    let own = route.operation.own_query();
    if !own.is_empty() {
        let number = |name: &str| match name {
            "limit" => json!({ "type": "integer", "minimum": 0, "default": EVENTS_SHOWN }),
            "confirm_seconds" => json!({ "type": "integer", "minimum": 1, "maximum": 86_400 }),
            "source" | "zone" => json!({ "type": "string" }),
            "all" => json!({ "type": "boolean", "default": false }),
            _ => json!({ "type": "integer", "minimum": 0 }),
        };
        let parameter = |(name, takes): &(&str, &str)| json!({ "name": name, "in": "query", "description": takes, "schema": number(name) });
        described["parameters"] = own.iter().map(parameter).collect();
    }
    let request = match route.bodies.0 {
        Body::Nothing | Body::Metrics => return described,
        Body::Json => body(generator.subschema_for::<NewPolicy>()),
        Body::Backup => backup(),
    };
    described["requestBody"] = json!({ "required": true, "content": request });
    described
}

fn parameters((own, takes): (&str, &str)) -> Value {
    let parameter = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "query", "description": description, "schema": schema });
    let schema = match own {
        "limit" => json!({ "type": "integer", "minimum": 0, "default": FLOWS_SHOWN }),
        _ => json!({ "type": "boolean", "default": false }),
    };
    let filters = KEYS.iter().map(|(key, takes)| parameter(key, takes, json!({ "type": "string" })));
    filters.chain([parameter(own, takes, schema)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMITTED: &str = include_str!("../../../../docs/schema/rampart-api.json");

    #[test]
    fn the_committed_description_is_current() {
        let current = format!("{:#}\n", description());
        assert!(
            COMMITTED == current,
            "docs/schema/rampart-api.json is out of date: run `cargo xtask schema`"
        );
    }

    #[test]
    fn every_operation_has_one_route() {
        for route in &ROUTES {
            assert_eq!(route.operation.route().path, route.path);
            let same = ROUTES.iter().filter(|r| (r.method, r.path) == (route.method, route.path));
            assert_eq!(same.count(), 1, "{} {}", route.method, route.path);
        }
    }

    /// Every `$ref` leads to a schema of the document.
    #[test]
    fn references_lead_somewhere() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(map) => {
                    found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    map.values().for_each(|v| references(v, found));
                }
                Value::Array(list) => list.iter().for_each(|v| references(v, found)),
                _ => {}
            }
        }
        let (document, mut found) = (description(), Vec::new());
        references(&document, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap_or_default();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}
