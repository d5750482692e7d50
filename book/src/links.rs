//! Relative links of Markdown documents: each must lead to a file, and its anchor to a heading.
//!
//! Every page below `docs/` must be in `docs/SUMMARY.md`. A page may link to a file outside
//! `docs/`, but not to a directory there.

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

const SUMMARY: &str = "docs/SUMMARY.md";

/// A link in a page.
pub struct Link {
    pub url: String,
    /// The bytes of the page that hold the link.
    pub range: Range<usize>,
}

/// The target of a relative link, as a path in the checkout.
pub enum Target {
    File(PathBuf, Option<String>),
    Directory,
    Missing(PathBuf),
}

/// Returns one line for each broken link.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut pages = BTreeMap::new();
    for page in documents(root)? {
        let text = fs::read_to_string(root.join(&page))
            .map_err(|error| format!("{}: {error}", page.display()))?;
        pages.insert(page, text);
    }
    let mut findings = Vec::new();
    for (page, text) in &pages {
        for link in of(text) {
            if let Some(problem) = problem(root, &pages, page, &link.url) {
                let line = text[..link.range.start].matches('\n').count() + 1;
                findings.push(format!("{}:{line}: {problem}", page.display()));
            }
        }
    }
    findings.extend(unlisted(root, &pages));
    Ok(findings)
}

/// The Markdown files of the checkout that are written for readers.
fn documents(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    markdown(root, Path::new(""), false, &mut found)?;
    markdown(root, Path::new("docs"), true, &mut found)?;
    markdown(root, Path::new("traces"), false, &mut found)?;
    Ok(found)
}

fn markdown(
    root: &Path,
    directory: &Path,
    below: bool,
    found: &mut Vec<PathBuf>,
) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", directory.display());
    for entry in fs::read_dir(root.join(directory)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = directory.join(entry.file_name());
        if below && entry.path().is_dir() {
            markdown(root, &path, below, found)?;
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
    Ok(())
}

/// Returns the inline links and pictures of a page.
pub fn of(text: &str) -> Vec<Link> {
    let link = |(event, range)| match event {
        Event::Start(
            Tag::Link {
                link_type: LinkType::Inline,
                dest_url,
                ..
            }
            | Tag::Image { dest_url, .. },
        ) => Some(Link {
            url: dest_url.into_string(),
            range,
        }),
        _ => None,
    };
    parser(text).into_offset_iter().filter_map(link).collect()
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// Resolves a relative link; returns `None` for a link to another site.
pub fn target(root: &Path, page: &Path, url: &str) -> Option<Target> {
    if url.contains("://") || url.starts_with("mailto:") {
        return None;
    }
    let mut parts = url.splitn(2, '#');
    let path = parts.next().unwrap_or_default();
    let anchor = parts.next().map(str::to_owned);
    if path.is_empty() {
        return Some(Target::File(page.into(), anchor));
    }
    let path = normal(&page.parent().unwrap_or(Path::new("")).join(path));
    let full = root.join(&path);
    Some(if full.is_dir() {
        Target::Directory
    } else if full.is_file() {
        Target::File(path, anchor)
    } else {
        Target::Missing(path)
    })
}

/// Removes `.` and `..` from a relative path.
fn normal(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            part => clean.push(part),
        }
    }
    clean
}

/// Says what is wrong with a link, if anything is.
fn problem(
    root: &Path,
    pages: &BTreeMap<PathBuf, String>,
    page: &Path,
    url: &str,
) -> Option<String> {
    match target(root, page, url)? {
        Target::Missing(path) => Some(format!(
            "the link {url} leads to {}, which does not exist",
            path.display()
        )),
        Target::Directory if page.starts_with("docs") => Some(format!(
            "the link {url} leads to a directory, which the built book cannot show; link to a file"
        )),
        Target::Directory | Target::File(_, None) => None,
        Target::File(path, Some(anchor)) => {
            let text = pages.get(&path)?;
            let headings = headings(text);
            (!headings.contains(&anchor)).then(|| {
                let known: Vec<&str> = headings.iter().map(String::as_str).collect();
                format!(
                    "the link {url}: {} has no heading #{anchor}; it has {}",
                    path.display(),
                    known.join(", ")
                )
            })
        }
    }
}

/// The anchors of a page's headings, as mdBook and code forges make them.
fn headings(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in parser(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                found.extend(heading.take().map(|title| anchor(&title)));
            }
            Event::Text(part) | Event::Code(part) => {
                if let Some(title) = &mut heading {
                    title.push_str(&part);
                }
            }
            _ => {}
        }
    }
    found
}

fn anchor(title: &str) -> String {
    let letter = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    };
    title
        .trim()
        .to_lowercase()
        .chars()
        .filter_map(letter)
        .collect()
}

/// Reports pages of `docs/` that the table of contents leaves out.
fn unlisted(root: &Path, pages: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let contents = pages.get(Path::new(SUMMARY)).map_or("", String::as_str);
    let listed: BTreeSet<PathBuf> = of(contents)
        .iter()
        .filter_map(|link| match target(root, Path::new(SUMMARY), &link.url) {
            Some(Target::File(path, _)) => Some(path),
            _ => None,
        })
        .collect();
    pages
        .keys()
        .filter(|page| page.starts_with("docs") && *page != Path::new(SUMMARY))
        .filter(|page| !listed.contains(*page))
        .map(|page| format!("{}: {SUMMARY} does not list this page", page.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_anchors_and_unlisted_pages_are_found() {
        let root = std::env::temp_dir().join(format!("nandlab-book-{}", std::process::id()));
        fs::create_dir_all(root.join("docs/a")).unwrap();
        fs::create_dir_all(root.join("traces")).unwrap();
        let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
        write(
            "README.md",
            "[ok](docs/a/b.md#the-b-file) [no](docs/c.md)\n\n[no](docs/a/b.md#b)",
        );
        write("docs/SUMMARY.md", "- [b](a/b.md)");
        write(
            "docs/a/b.md",
            "# The `b` file\n[up](../../README.md) [x](https://x.example/y)",
        );
        write("docs/d.md", "[dir](../traces) `[code](nowhere)`");
        let findings = check(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(
            findings,
            [
                "README.md:1: the link docs/c.md leads to docs/c.md, which does not exist",
                "README.md:3: the link docs/a/b.md#b: docs/a/b.md has no heading #b; it has \
                 the-b-file",
                "docs/d.md:1: the link ../traces leads to a directory, which the built book cannot \
                 show; link to a file",
                "docs/d.md: docs/SUMMARY.md does not list this page",
            ]
        );
    }
}
