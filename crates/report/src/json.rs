//! `results.json`: the run as it is, readable by other programs, described by a JSON Schema that is generated from the
//! types and committed as `docs/schema/rampart-bench-1.json`.

use crate::error::ReportError;
use measure::results::{Results, SCHEMA};
use std::path::Path;

/// The results as indented JSON with a final newline.
///
/// # Errors
/// [`ReportError::Render`] when a value cannot be written as JSON, which no measured value can cause.
pub fn to_string(results: &Results) -> Result<String, ReportError> {
    let mut text = serde_json::to_string_pretty(results).map_err(|e| ReportError::Render(e.to_string()))?;
    text.push('\n');
    Ok(text)
}

/// Reads `results.json`; `path` is only named in errors.
///
/// # Errors
/// [`ReportError::Malformed`] with line and column, or [`ReportError::Schema`] for another schema's file.
pub fn from_str(text: &str, path: &Path) -> Result<Results, ReportError> {
    check_schema(text, path)?;
    serde_json::from_str(text).map_err(|e| malformed(path, 0, &e))
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

/// Fails when the text says that it is of another schema; text that is not JSON is left for the parser to report.
pub(crate) fn check_schema(text: &str, path: &Path) -> Result<(), ReportError> {
    #[derive(serde::Deserialize)]
    struct Said {
        schema: String,
    }
    match serde_json::from_str::<Said>(text) {
        Ok(said) if said.schema != SCHEMA => {
            Err(ReportError::Schema { path: path.into(), found: said.schema })
        }
        _ => Ok(()),
    }
}

/// The JSON Schema of `results.json`, as committed in `docs/schema/rampart-bench-1.json`.
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
