//! Help: the guide, which is built in.

use crate::app::{Context, Fault};
use crate::http::Answer;
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
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

/// A page of the guide as HTML. HTML in it is shown as text, links to other pages of it lead to them here, and others are words.
pub(crate) fn html(name: &str) -> String {
    let Some((.., text)) = GUIDES.iter().find(|(known, ..)| *known == name) else { return String::new() };
    let events: Vec<Event<'_>> = Parser::new_ext(text, Options::ENABLE_TABLES).collect();
    let mut out = Vec::with_capacity(events.len());
    let mut links = Vec::new();
    for (place, event) in events.iter().enumerate() {
        out.push(match event {
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text.clone()),
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let id = Some(CowStr::from(anchor(&events[place..])));
                // The page's own title is the first.
                let level = if *level == HeadingLevel::H1 { HeadingLevel::H2 } else { *level };
                Event::Start(Tag::Heading { level, id, classes: classes.clone(), attrs: attrs.clone() })
            }
            Event::End(TagEnd::Heading(HeadingLevel::H1)) => Event::End(TagEnd::Heading(HeadingLevel::H2)),
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let to = target(dest_url);
                links.push(to.is_some());
                let Some(to) = to else { continue };
                Event::Start(Tag::Link {
                    link_type: *link_type,
                    dest_url: to.into(),
                    title: title.clone(),
                    id: id.clone(),
                })
            }
            Event::End(TagEnd::Link) if links.pop() == Some(false) => continue,
            Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => continue,
            other => other.clone(),
        });
    }
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, out.into_iter());
    html
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

/// The name of a heading for links, as forges make it.
fn anchor(events: &[Event<'_>]) -> String {
    let until = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    let words: String = until
        .filter_map(|event| match event {
            Event::Text(text) | Event::Code(text) => Some(text.to_lowercase()),
            _ => None,
        })
        .collect();
    let plain = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    plain.map(|c| if c == ' ' { '-' } else { c }).collect()
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
