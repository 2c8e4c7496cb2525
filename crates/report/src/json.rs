//! `results.json`: the run as it is, readable by other programs, described by a JSON Schema that is generated from the
//! types and committed as `docs/schema/rampart-bench-2.json`.

use crate::error::ReportError;
use crate::schema1::{Results1, SCHEMA_1};
use measure::results::{Results, SCHEMA};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// Below this, 2^53, every whole number has a float of its own.
const MOST_WHOLE: f64 = 9_007_199_254_740_992.0;

/// Lists whose elements stand on a line each.
const LISTS: [&str; 7] = ["calibration", "tick_sheet", "mixes", "firewalls", "cells", "runs", "points"];

/// The results as JSON, every field of the run and every element of its lists on a line of its own: short enough for a full
/// suite, and still to be read with `less` and compared with `diff`.
///
/// # Errors
/// [`ReportError::Render`] when a value cannot be written as JSON, which no measured value can cause.
pub fn to_string(results: &Results) -> Result<String, ReportError> {
    let defect = |e: serde_json::Error| ReportError::Render(e.to_string());
    let run = value(results).map_err(defect)?;
    let mut fields = Vec::new();
    for (name, value) in run.as_object().into_iter().flatten() {
        let written = match value.as_array().filter(|_| LISTS.contains(&name.as_str())) {
            Some(list) if !list.is_empty() => {
                let lines: Vec<String> = list.iter().map(ToString::to_string).collect();
                format!("[\n{}\n]", lines.join(",\n"))
            }
            _ => value.to_string(),
        };
        fields.push(format!("\"{name}\": {written}"));
    }
    Ok(format!("{{\n{}\n}}\n", fields.join(",\n")))
}

/// A value as JSON in which whole numbers have no decimal point.
pub(crate) fn value(of: &impl Serialize) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(of)?;
    shorten(&mut value);
    Ok(value)
}

fn shorten(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < MOST_WHOLE);
            if let Some(whole) = whole {
                *number = (whole as i64).into();
            }
        }
        Value::Array(list) => list.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// Reads `results.json`; `path` is only named in errors.
///
/// # Errors
/// [`ReportError::Malformed`] with line and column, or [`ReportError::Schema`] for another schema's file.
pub fn from_str(text: &str, path: &Path) -> Result<Results, ReportError> {
    match schema_of(text, path)? {
        Schema::Two => serde_json::from_str(text),
        Schema::One => serde_json::from_str::<Results1>(text).map(Results::from),
    }
    .map_err(|e| malformed(path, 0, &e))
}

/// The error for text that serde_json rejected, `lines_before` lines into a file.
pub(crate) fn malformed(path: &Path, lines_before: usize, error: &serde_json::Error) -> ReportError {
    // serde_json ends its message with its own position, which would be said twice.
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(said, _)| said);
    ReportError::Malformed {
        path: path.into(),
        line: lines_before + error.line(),
        column: error.column(),
        message: message.into(),
    }
}

/// Schemas that this program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schema {
    One,
    Two,
}

/// The schema that a text says it is of; text that is not JSON is left for the parser to report.
pub(crate) fn schema_of(text: &str, path: &Path) -> Result<Schema, ReportError> {
    #[derive(serde::Deserialize)]
    struct Said {
        schema: String,
    }
    match serde_json::from_str::<Said>(text) {
        Ok(said) if said.schema == SCHEMA_1 => Ok(Schema::One),
        Ok(said) if said.schema != SCHEMA => {
            Err(ReportError::Schema { path: path.into(), found: said.schema })
        }
        _ => Ok(Schema::Two),
    }
}

/// The JSON Schema of `results.json`, as committed in `docs/schema/rampart-bench-2.json`.
///
/// # Errors
/// [`ReportError::Render`] when the schema cannot be written as JSON, which would be a defect of the types.
pub fn schema() -> Result<String, ReportError> {
    let mut schema = schemars::schema_for!(Results);
    schema.insert("$id".into(), SCHEMA.into());
    let mut text = serde_json::to_string_pretty(&schema).map_err(|e| ReportError::Render(e.to_string()))?;
    text.push('\n');
    Ok(text)
}
