//! Keeps runs over time, in one SQLite file of the user, and shows them: lists, trends of points with the changes that
//! `measure::change` finds in them, runs laid over each other, and the pages of `rampart-bench serve`. Measures nothing. A run
//! never depends on it: whatever is wrong with the file is an error that the caller may only mention.

pub mod csv;
pub mod error;
pub mod import;
pub mod live;
pub mod overlay;
pub mod place;
pub mod query;
pub mod serve;
pub mod store;
pub mod text;
pub mod trend;

pub use error::HistoryError;
pub use place::Place;
pub use query::Query;
pub use store::{Kept, RunRow, Store};
