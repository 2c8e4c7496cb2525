//! Reads TOML that people write, and reports all mistakes of a text at once, each with its line, its column and what would be
//! right. Suites of the bench and policies of the firewall are both read with it. Pure: it opens no files, and it knows the
//! keys of no language.
//!
//! ```
//! let mut c = toml_reader::Collector::new("demo.toml", "rounds = 0\nnaem = 'demo'");
//! let table = toml_reader::parse(&mut c).ok_or("not TOML")?;
//! let root = toml_reader::Section::root(&table, "a demo");
//! let rounds: Option<u32> = root.integer("rounds", 1..=1000, &mut c);
//! let name = root.required_text("name", "\"demo\"", &mut c);
//! root.finish(&mut c);
//! assert!(rounds.is_none() && name.is_none());
//! assert_eq!(
//!     c.into_problems().to_string(),
//!     "demo.toml:1:1: a demo has no `name`\n  write name = \"demo\"\n\
//!      demo.toml:1:10: `rounds` must lie between 1 and 1000\n\
//!      demo.toml:2:1: a demo has no key `naem`\n  did you mean `name`?"
//! );
//! # Ok::<(), &str>(())
//! ```

mod problem;
mod section;
mod words;

pub use problem::{Collector, Home, MAX_PROBLEMS, Places, Problem, Problems};
pub use section::{Located, Section, items, parse, plain_text, texts, wrong_type};
pub use toml::de::DeValue;
pub use words::{is_harmful, printable, shortened, suggestion, suggestion_from};

/// A value of a text, and the bytes where it is written.
pub type Value<'t> = toml::Spanned<DeValue<'t>>;
