//! `make docs` writes the documents generated from the code; otherwise the tests check whether they are current.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

mod configuration;
mod kept;
mod metrics;
mod promql;
mod rules;

pub use kept::{keep, project};

/// Wraps a paragraph to the line length of the documents.
pub fn wrapped(words: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in words.split_whitespace() {
        let len = word.chars().count();
        if width > 0 {
            let fits = width + 1 + len <= 120;
            text.push(if fits { ' ' } else { '\n' });
            width = if fits { width + 1 } else { 0 };
        }
        text.push_str(word);
        width += len;
    }
    text
}

/// The documents whose links are checked: relative links must have an existing target.
fn documents() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(project("docs")).unwrap();
    let pages = folder.map(|file| file.unwrap().path());
    let pages = pages.filter(|file| file.extension().is_some_and(|end| end == "md"));
    let named = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "examples/README.md",
    ];
    pages.chain(named.map(project)).collect()
}

/// Lines outside of fenced code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Targets of `[...](target)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let parts = line.split("](").skip(1);
    parts.filter_map(|part| part.split_once(')').map(|(target, _)| target))
}

/// GitHub's names for the headings of a page.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(page).unwrap();
    let headings = prose(&text).filter_map(|(_, line)| line.strip_prefix('#'));
    let anchors = headings.map(|heading| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|&c| c.is_alphanumeric() || "_- ".contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    });
    anchors.collect()
}

#[test]
fn every_relative_link_points_at_something() {
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for page in documents() {
        let text = std::fs::read_to_string(&page).unwrap();
        for (number, line) in prose(&text) {
            for link in links(line).filter(|link| !link.contains("://")) {
                checked += 1;
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = match file {
                    "" => page.clone(),
                    file => page.parent().unwrap().join(file),
                };
                let is_there =
                    target.exists() && (anchor.is_empty() || anchors(&target).contains(anchor));
                if !is_there {
                    wrong.push(format!("{}:{}: {link}", page.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "nothing is there:\n{}", wrong.join("\n"));
    assert!(checked > 50, "{checked}");
}

/// The README is read in a minute; everything else belongs into `docs`.
#[test]
fn the_readme_has_at_most_100_lines_and_20_links() {
    let text = std::fs::read_to_string(project("README.md")).unwrap();
    let targets = text.lines().flat_map(links).count();
    assert!(text.lines().count() <= 100);
    assert!((5..=20).contains(&targets), "{targets} links");
}

/// Adds the files below a folder.
fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_files(&path, files);
        } else {
            files.push(path);
        }
    }
}

#[test]
fn sources_that_the_architecture_names_are_there() {
    let mut files = Vec::new();
    for folder in ["dpdk-bindings", "measure", "control", "switch", "benches"] {
        add_files(&project(folder), &mut files);
    }
    let text = std::fs::read_to_string(project("ARCHITECTURE.md")).unwrap();
    let spans = prose(&text).flat_map(|(_, line)| line.split('`').skip(1).step_by(2));
    // `x.rs` is a placeholder, which the page explains.
    let is_source = |span: &&str| Path::new(span).extension().is_some_and(|end| end == "rs");
    let named = spans.filter(|span| is_source(span) && !span.ends_with("/x.rs"));
    let is_there = |name: &&str| files.iter().any(|file| file.ends_with(name));
    let (there, gone): (Vec<_>, Vec<_>) = named.partition(is_there);
    assert!(gone.is_empty(), "not there: {gone:?}");
    assert!(there.len() > 50, "{}", there.len());
}
