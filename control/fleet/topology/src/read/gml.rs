//! GML (Himsolt, "GML: A portable Graph File Format", 1997). A topology needs `graph`, `directed`, `node` (`id`, `label`)
//! and `edge` (`source`, `target`, `weight`); other keys are skipped.

use std::collections::{HashMap, HashSet};

use super::{Network, Place, Problem, clean, weight};
use crate::topology::Weight;

/// Limit of nested lists.
const DEPTH_MAX: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'a> {
    /// A key or a number.
    Word(&'a str),
    Text(&'a str),
    Open,
    Close,
}

struct Tokens<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Result<(Token<'a>, usize), Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.rest.trim_start();
            self.advance(self.rest.len() - rest.len());
            if !self.rest.starts_with('#') {
                break;
            }
            self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
        let line = self.line;
        let token = match self.rest.chars().next()? {
            '[' => {
                self.advance(1);
                Token::Open
            }
            ']' => {
                self.advance(1);
                Token::Close
            }
            '"' => {
                self.advance(1);
                let Some(end) = self.rest.find('"') else {
                    return Some(Err(at(line, "expected a second `\"`: the text has no end")));
                };
                let text = &self.rest[..end];
                self.advance(end + 1);
                Token::Text(text)
            }
            _ => {
                let end = |c: char| c.is_whitespace() || matches!(c, '[' | ']' | '"');
                let word = &self.rest[..self.rest.find(end).unwrap_or(self.rest.len())];
                self.advance(word.len());
                Token::Word(word)
            }
        };
        Some(Ok((token, line)))
    }
}

impl Tokens<'_> {
    fn advance(&mut self, bytes: usize) {
        let (gone, rest) = self.rest.split_at(bytes);
        self.line += gone.matches('\n').count();
        self.rest = rest;
    }
}

fn at(line: usize, problem: impl Into<String>) -> Problem {
    (Place::Line(line), problem.into())
}

enum Value<'a> {
    One(&'a str),
    List(Vec<Entry<'a>>),
}

struct Entry<'a> {
    key: &'a str,
    line: usize,
    value: Value<'a>,
}

/// Whether a word can be a key. Characters that the format excludes are accepted, except those of a text that ended
/// early, at a quotation mark within it.
fn is_key(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && word
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))
}

/// Parses a list up to its end; at depth 0, up to the end of the file.
fn list<'a>(tokens: &mut Tokens<'a>, depth: usize) -> Result<Vec<Entry<'a>>, Problem> {
    let mut entries = Vec::new();
    loop {
        let (key, line) = match tokens.next().transpose()? {
            Some((Token::Word(key), line)) if is_key(key) => (key, line),
            Some((Token::Word(key), line)) => {
                let problem = format!(
                    "expected a key, which has letters, digits and `_`, not {}; in texts a quotation mark is `&quot;`",
                    clean(key)
                );
                return Err(at(line, problem));
            }
            Some((Token::Close, _)) if depth > 0 => return Ok(entries),
            None if depth == 0 => return Ok(entries),
            Some((_, line)) => return Err(at(line, "expected a key")),
            None => return Err(at(tokens.line, "expected `]`: the file ends within a list")),
        };
        let value = match tokens.next().transpose()? {
            Some((Token::Word(value) | Token::Text(value), _)) => Value::One(value),
            Some((Token::Open, _)) if depth < DEPTH_MAX => Value::List(list(tokens, depth + 1)?),
            Some((Token::Open, line)) => {
                return Err(at(
                    line,
                    format!("expected at most {DEPTH_MAX} nested lists"),
                ));
            }
            Some((Token::Close, _)) | None => {
                return Err(at(line, format!("expected a value of `{key}`")));
            }
        };
        entries.push(Entry { key, line, value });
    }
}

/// The single value of a key; `None` if it is missing.
fn one<'a>(entries: &[Entry<'a>], key: &str) -> Result<Option<&'a str>, Problem> {
    let mut found = None;
    for entry in entries.iter().filter(|entry| entry.key == key) {
        let Value::One(value) = entry.value else {
            let problem = format!("expected a number or a text as `{key}`, not a list");
            return Err(at(entry.line, problem));
        };
        if found.replace(value).is_some() {
            return Err(at(entry.line, format!("expected one `{key}`, not several")));
        }
    }
    Ok(found)
}

/// The lists of a key with the lines where they begin.
fn lists<'a, 'b>(entries: &'b [Entry<'a>], key: &str) -> Vec<(usize, &'b [Entry<'a>])> {
    let lists = entries.iter().filter_map(|entry| match &entry.value {
        Value::List(list) if entry.key == key => Some((entry.line, list.as_slice())),
        _ => None,
    });
    lists.collect()
}

pub(super) fn parse(text: &str) -> Result<Network, Problem> {
    let file = list(
        &mut Tokens {
            rest: text,
            line: 1,
        },
        0,
    )?;
    let graphs = lists(&file, "graph");
    let [(_, graph)] = graphs[..] else {
        let problem = format!("expected one `graph [ ... ]`, not {}", graphs.len());
        return Err((Place::File, problem));
    };
    let mut network = Network::default();
    let nodes = nodes(graph, &mut network)?;
    let both = one(graph, "directed")? != Some("1");
    for (line, edge) in lists(graph, "edge") {
        let end = |key| {
            let id = one(edge, key)?;
            let id = id.ok_or_else(|| at(line, format!("expected a `{key}` in this `edge`")))?;
            let unknown = || {
                at(
                    line,
                    format!("expected the id of a node as `{key}`, not {}", clean(id)),
                )
            };
            nodes.get(id).copied().ok_or_else(unknown)
        };
        let (from, to) = (end("source")?, end("target")?);
        let cost = one(edge, "weight")?.map_or(Ok(Weight::ONE), weight);
        let cost = cost.map_err(|problem| at(line, problem))?;
        let added = network.link(from, to, cost, both);
        added.map_err(|problem| at(line, problem))?;
    }
    Ok(network)
}

/// Routers by ID. Their names are the labels. Labels that several share get the ID appended, and missing or blank
/// labels are replaced by it. A label that already looks like such a name stays as it is, and the other gets its ID
/// twice: `A`, `A` and `A #1` become `A #1 #1`, `A #2` and `A #1`.
fn nodes<'a>(graph: &[Entry<'a>], network: &mut Network) -> Result<HashMap<&'a str, u32>, Problem> {
    let nodes = lists(graph, "node");
    let label = |node: &[Entry<'_>]| {
        // Characters beyond ASCII are HTML entities.
        let shown = |label: &str| clean(&html_escape::decode_html_entities(label));
        let label = one(node, "label")?.map(shown);
        Ok(label.filter(|label| !label.trim().is_empty()))
    };
    let labels: Vec<_> = nodes
        .iter()
        .map(|(_, node)| label(node))
        .collect::<Result<_, Problem>>()?;
    let mut times = HashMap::<&str, usize>::new();
    for label in labels.iter().flatten() {
        *times.entry(label).or_default() += 1;
    }
    let (mut routers, mut made) = (HashMap::new(), HashSet::new());
    for ((line, node), label) in nodes.into_iter().zip(&labels) {
        let id = one(node, "id")?.ok_or_else(|| at(line, "expected an `id` in this `node`"))?;
        if routers.contains_key(id) {
            let id = clean(id);
            let problem = format!("expected an id that no other node has, not {id}");
            return Err(at(line, problem));
        }
        let name = match label {
            Some(label) if times.get(label.as_str()) == Some(&1) => label.clone(),
            _ => {
                let suffix = clean(&format!("#{id}"));
                let mut name = match label {
                    Some(label) => format!("{label} {suffix}"),
                    None => suffix.clone(),
                };
                while times.contains_key(name.as_str()) || made.contains(&name) {
                    name = format!("{name} {suffix}");
                }
                made.insert(name.clone());
                name
            }
        };
        let (router, _) = network.router(&name).map_err(|problem| at(line, problem))?;
        routers.insert(id, router);
    }
    Ok(routers)
}
