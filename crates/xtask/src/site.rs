//! The documentation as a site: every page of Markdown as HTML, with the commands' help beside them. Pages are made from the tree alone.

use crate::tree::Tree;
use anyhow::Context as _;
use std::fmt::Write as _;
use std::path::Path;

/// The page that readers come to first, which becomes `index.html`.
const FIRST: &str = "docs/README.md";
/// The parts of the list of pages, and where the pages of each lie; of two that fit the first holds.
const PARTS: [(&str, &[&str]); 6] = [
    ("Learn", &["docs/tutorials/"]),
    ("Do", &["docs/guide/"]),
    ("Look up", &["reference/", "docs/glossary.md", "suites/"]),
    ("Understand", &["ARCHITECTURE.md", "docs/design/"]),
    ("Decisions", &["docs/decisions/"]),
    (
        "Project",
        &[
            "README.md",
            "SPEC.md",
            "CHANGELOG.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
            "STYLE.md",
            "docs/contributing.md",
        ],
    ),
];

/// A file of the site.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// Path from the site's folder.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
}

impl File {
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(&self.path);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(&path, &self.text).with_context(|| format!("writing {}", path.display()))
    }
}

/// The help of a program and of its commands: each one's words, and what `--help` prints.
pub(crate) struct Commands {
    /// The program's name.
    pub(crate) program: String,
    /// `rampart up` and what its help says.
    pub(crate) help: Vec<(String, String)>,
}

/// All pages of the site, and its style.
pub(crate) fn files(tree: &Tree, commands: &[Commands]) -> Vec<File> {
    let mut sources: Vec<(String, String)> = tree
        .files()
        .filter(|(path, _)| path.ends_with(".md") && part_of(path).is_some())
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .collect();
    sources.extend(commands.iter().map(reference));
    let list: Vec<Entry> = sources.iter().map(|(path, text)| Entry::of(path, text)).collect();
    let first = (FIRST.to_owned(), tree.text(FIRST).to_owned());
    let pages = std::iter::once(&first).chain(&sources);
    let mut files: Vec<File> = pages.map(|(path, text)| page(path, text, &list)).collect();
    files.push(File { path: "style.css".to_owned(), text: include_str!("site/style.css").to_owned() });
    files
}

fn part_of(path: &str) -> Option<&'static str> {
    let fits = |begin: &&str| path == *begin || (begin.ends_with('/') && path.starts_with(begin));
    PARTS.iter().find(|(_, begins)| begins.iter().any(fits)).map(|(part, _)| *part)
}

/// A line in the list of pages.
struct Entry {
    part: &'static str,
    path: String,
    title: String,
}

impl Entry {
    fn of(path: &str, text: &str) -> Self {
        let heading = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(path);
        Self {
            part: part_of(path).unwrap_or("Project"),
            path: path.to_owned(),
            title: heading.replace('`', ""),
        }
    }
}

/// The page of a program's commands, as Markdown.
fn reference(commands: &Commands) -> (String, String) {
    let mut text = format!("# Commands of {}\n", commands.program);
    for (words, help) in &commands.help {
        let _ = write!(text, "\n## {words}\n\n```\n{}\n```\n", help.trim_end());
    }
    (format!("reference/{}.md", commands.program), text)
}

fn page(path: &str, text: &str, list: &[Entry]) -> File {
    let to = place(path);
    let up = "../".repeat(to.matches('/').count());
    let title = Entry::of(path, text).title;
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{} · Rampart</title>\n\
         <link rel=\"stylesheet\" href=\"{up}style.css\">\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#page\">To the page</a>\n<nav aria-label=\"Pages\">\n\
         <p><a href=\"{up}index.html\">Rampart</a></p>\n",
        escape(&title)
    );
    for (part, _) in PARTS {
        // Fifty decisions would hide all else, but for who reads them.
        let open =
            if part_of(path) == Some(part) || (path == FIRST && part != "Decisions") { " open" } else { "" };
        let _ = writeln!(html, "<details{open}><summary>{part}</summary>\n<ul>");
        for entry in list.iter().filter(|entry| entry.part == part) {
            let here = if entry.path == path { " aria-current=\"page\"" } else { "" };
            let _ = writeln!(
                html,
                "<li><a href=\"{up}{}\"{here}>{}</a></li>",
                place(&entry.path),
                escape(&entry.title)
            );
        }
        html.push_str("</ul></details>\n");
    }
    html.push_str("</nav>\n<main id=\"page\">\n");
    html.push_str(&body(path, text, list));
    html.push_str("</main>\n</body>\n</html>\n");
    File { path: to, text: html }
}

/// Where the page of a file lies in the site.
fn place(path: &str) -> String {
    match path {
        FIRST => "index.html".to_owned(),
        other => other.strip_suffix(".md").map_or_else(|| other.to_owned(), |stem| format!("{stem}.html")),
    }
}

/// A page's text as HTML. Links to other pages lead to them, and those to files that are no pages are words.
fn body(path: &str, text: &str, list: &[Entry]) -> String {
    let html = guide_html::html(text, false, |url| target(path, url, list));
    // A wide table is moved by itself, and the page stays where it is.
    html.replace("<table>", "<div class=\"wide\" tabindex=\"0\"><table>")
        .replace("</table>", "</table></div>")
}

/// Where a link of the page `from` leads within the site.
fn target(from: &str, url: &str, list: &[Entry]) -> Option<String> {
    if url.starts_with('#') || url.starts_with("https://") {
        return Some(url.to_owned());
    }
    let (file, anchor) =
        url.split_once('#').map_or((url, String::new()), |(file, at)| (file, format!("#{at}")));
    let file = crate::layout::resolve(from, file);
    let is_page = file == FIRST || list.iter().any(|entry| entry.path == file);
    let up = "../".repeat(place(from).matches('/').count());
    is_page.then(|| format!("{up}{}{anchor}", place(&file)))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::browser::{Browser, axe};

    fn site() -> Vec<File> {
        let tree = Tree::of(&[
            (
                FIRST,
                "# Docs\n[guide](guide/a.md#two-words), [code](../src/x.rs), [out](https://example.org)\n",
            ),
            (
                "docs/guide/a.md",
                "# A `b` <c>\n\n## Two words\n\n<script>x</script>\n\n[home](../README.md) [spec](../../SPEC.md)\n\n|a|\n|-|\n|b|\n",
            ),
            ("SPEC.md", "# Spec\n[a](docs/guide/a.md)\n"),
            ("src/x.rs", "fn x() {}"),
            ("crates/x/NOTES.md", "# Notes\n"),
        ]);
        let help = vec![("rampart up".to_owned(), "Usage: rampart up <POLICY>\n".to_owned())];
        files(&tree, &[Commands { program: "rampart".to_owned(), help }])
    }

    /// A page with the list of all, and pages with tables, commands and code. All others are made as they are.
    const EACH_KIND: [&str; 4] =
        ["index.html", "docs/guide/fleet.html", "docs/decisions/0048-metrics.html", "reference/rampart.html"];

    /// All pages of this repository, on a telephone and on a screen, light and dark.
    #[test]
    fn in_a_browser_no_page_is_too_wide_and_none_keeps_people_out() {
        let tree = Tree::read(&crate::root()).unwrap();
        let line =
            "  --option <VALUE>  What it is for, said in a line that is as long as those of programs are\n";
        let help = vec![("rampart up".to_owned(), format!("Usage: rampart up\n{}", line.repeat(3)))];
        let files = files(&tree, &[Commands { program: "rampart".to_owned(), help }]);
        let folder = tempfile::tempdir().unwrap();
        files.iter().for_each(|file| file.write(folder.path()).unwrap());
        let mut browser = Browser::open();
        let mut faults = Vec::new();
        for file in files.iter().filter(|file| file.path.ends_with(".html")) {
            browser.go(&format!("file://{}", folder.path().join(&file.path).display()));
            for (width, scheme) in [(400, "dark"), (1280, "light")] {
                browser.look(width, scheme);
                let mut found = browser.too_wide();
                if EACH_KIND.contains(&file.path.as_str()) {
                    found.extend(browser.run(&axe()).as_array().unwrap().iter().cloned());
                }
                faults.extend(found.iter().map(|it| format!("{} at {width} px: {it}", file.path)));
            }
        }
        assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
        assert_eq!(browser.faults, [""; 0]);
    }

    fn text<'a>(site: &'a [File], path: &str) -> &'a str {
        site.iter().find(|file| file.path == path).map_or("", |file| &file.text)
    }

    #[test]
    fn every_page_is_there_and_links_to_the_others() {
        let site = site();
        let paths: Vec<&str> = site.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            paths,
            ["index.html", "docs/guide/a.html", "SPEC.html", "reference/rampart.html", "style.css"]
        );
        for (page, words) in [
            (
                "index.html",
                "<a href=\"docs/guide/a.html#two-words\">guide</a>, code, <a href=\"https://example.org\">out</a>",
            ),
            ("index.html", "<title>Docs · Rampart</title>"),
            (
                "docs/guide/a.html",
                "<a href=\"../../index.html\">home</a> <a href=\"../../SPEC.html\">spec</a>",
            ),
            ("docs/guide/a.html", "<h2 id=\"two-words\">"),
            (
                "docs/guide/a.html",
                "<li><a href=\"../../docs/guide/a.html\" aria-current=\"page\">A b &lt;c&gt;</a></li>",
            ),
            ("docs/guide/a.html", "href=\"../../style.css\""),
            ("docs/guide/a.html", "<div class=\"wide\" tabindex=\"0\"><table>"),
            ("SPEC.html", "<a href=\"docs/guide/a.html\">a</a>"),
            (
                "reference/rampart.html",
                "<h2 id=\"rampart-up\">rampart up</h2>\n<pre tabindex=\"0\"><code>Usage: rampart up &lt;POLICY&gt;\n",
            ),
        ] {
            assert!(text(&site, page).contains(words), "{page}: {words}\n{}", text(&site, page));
        }
        assert!(!text(&site, "docs/guide/a.html").contains("<script>"));
    }
}
