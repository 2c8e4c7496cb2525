//! Pages of the guide as HTML, for the web administration's help and for the documentation's site. HTML in a page is shown as text, and
//! pictures are left out: their words stand in their place.

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// A page of Markdown as HTML. Headings have the names for links that forges give them. `link` says where a link leads, and `None` makes it words.
/// The page's title becomes a heading of the second level with `below`, for a page that has a title already.
pub fn html(markdown: &str, below: bool, link: impl Fn(&str) -> Option<String>) -> String {
    let events: Vec<Event<'_>> = Parser::new_ext(markdown, Options::ENABLE_TABLES).collect();
    let shown = |level: HeadingLevel| if below { level.max(HeadingLevel::H2) } else { level };
    let mut out = Vec::with_capacity(events.len());
    let mut links = Vec::new();
    for (place, event) in events.iter().enumerate() {
        out.push(match event {
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text.clone()),
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let id = Some(CowStr::from(anchor(&events[place..])));
                let (level, classes, attrs) = (shown(*level), classes.clone(), attrs.clone());
                Event::Start(Tag::Heading { level, id, classes, attrs })
            }
            Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(shown(*level))),
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let to = link(dest_url);
                links.push(to.is_some());
                let Some(to) = to else { continue };
                let (link_type, title, id) = (*link_type, title.clone(), id.clone());
                Event::Start(Tag::Link { link_type, dest_url: to.into(), title, id })
            }
            Event::End(TagEnd::Link) if links.pop() == Some(false) => continue,
            Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => continue,
            other => other.clone(),
        });
    }
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, out.into_iter());
    // What is wider than the page is moved by keys, too.
    html.replace("<pre>", "<pre tabindex=\"0\">")
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
    use super::html;

    #[test]
    fn pages_are_shown_and_nothing_in_them_is_done() {
        let link = |url: &str| url.strip_suffix(".md").map(|name| format!("/{name}"));
        for (text, expected) in [
            ("# A `b` c!", "<h1 id=\"a-b-c\">A <code>b</code> c!</h1>\n"),
            ("## Two words", "<h2 id=\"two-words\">Two words</h2>\n"),
            ("[a](b.md) [c](d)", "<p><a href=\"/b\">a</a> c</p>\n"),
            ("![a](b.md)", "<p>a</p>\n"),
            ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"),
            ("|a|\n|-|\n|b|", "<table>"),
            ("```\n<pre>\n```", "<pre tabindex=\"0\"><code>&lt;pre&gt;"),
        ] {
            let found = html(text, false, link);
            assert!(found.starts_with(expected), "{text}: {found}");
        }
        assert_eq!(html("# A\n## B", true, link), "<h2 id=\"a\">A</h2>\n<h2 id=\"b\">B</h2>\n");
    }
}
