//! Help: the guide, which is built in.

use crate::app::{Context, Fault};
use crate::http::Answer;
use serde_json::json;

const GUIDES: [(&str, &str, &str); 6] = [
    ("web", "This administration", include_str!("../../../../docs/guide/web.md")),
    ("policy", "The language of policies", include_str!("../../../../docs/guide/policy.md")),
    ("firewall", "The firewall and its commands", include_str!("../../../../docs/guide/firewall.md")),
    ("logs", "Events and logs", include_str!("../../../../docs/guide/logs.md")),
    ("metrics", "Metrics", include_str!("../../../../docs/guide/metrics.md")),
    ("import", "Policies of other firewalls", include_str!("../../../../docs/guide/import.md")),
];

pub(crate) fn index(context: &Context<'_>) -> Result<Answer, Fault> {
    let guides: Vec<_> =
        GUIDES.iter().map(|(name, title, _)| json!({ "name": name, "title": title })).collect();
    context.page("help.html", json!({ "title": "Help", "guides": guides }))
}

pub(crate) fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    let name = context.query().get("name");
    let found = GUIDES.iter().find(|(known, ..)| *known == name);
    let (name, title, _) =
        found.ok_or_else(|| Fault::Wrong(404, "there is no such page of help".to_owned()))?;
    context.page("help.html", json!({ "title": title, "name": name }))
}

/// A page of the guide as HTML. Links to other pages of it lead to them here, and others are words.
pub(crate) fn html(name: &str) -> String {
    let Some((.., text)) = GUIDES.iter().find(|(known, ..)| *known == name) else { return String::new() };
    // The page's own title is the first.
    guide_html::html(text, true, target)
}

/// Where a link leads from here.
fn target(url: &str) -> Option<String> {
    if url.starts_with('#') || url.starts_with("https://") {
        return Some(url.to_owned());
    }
    let (file, anchor) =
        url.split_once('#').map_or((url, String::new()), |(file, at)| (file, format!("#{at}")));
    let name = file.strip_suffix(".md")?;
    GUIDES.iter().find(|(known, ..)| *known == name).map(|_| format!("/help/page?name={name}{anchor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_that_are_here() {
        for (url, expected) in [
            ("policy.md", Some("/help/page?name=policy")),
            ("policy.md#rules", Some("/help/page?name=policy#rules")),
            ("#users", Some("#users")),
            ("https://example.com/", Some("https://example.com/")),
            ("../../SPEC.md", None),
            ("javascript:alert(1)", None),
            ("http://example.com/", None),
        ] {
            assert_eq!(target(url).as_deref(), expected, "{url}");
        }
    }

    /// Each page's help is a heading of the guide.
    #[test]
    fn the_help_of_every_page_is_there() {
        let html = html("web");
        let pages = include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("pub(crate) mod "));
        assert!(pages.count() > 10);
        for name in [
            "overview", "rules", "flows", "events", "drops", "blocked", "lists", "nat", "policy", "explain",
            "history", "audit", "users",
        ] {
            assert!(html.contains(&format!(" id=\"{name}\"")), "{name}: {html}");
        }
        for (name, ..) in GUIDES {
            let html = super::html(name);
            assert!(!html.contains("<script") && !html.contains("<img"), "{name}");
        }
    }
}
