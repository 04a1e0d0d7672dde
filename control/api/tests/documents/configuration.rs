//! `docs/configuration.md` and `docs/vernier.schema.json`, from the schema of the configuration.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::{keep, wrapped};
use contract::config::schema;

const HEAD: &str = "\
# Configuration

The configuration is one JSON file. `vernierd --check --config FILE` validates it, checks that the machine has what it names, and prints the
resources it would use. All errors are printed at once, each with its line, its key, the expected value and the value found. Unknown keys are
errors. JSON has no comments, so the [examples](../examples/README.md) are explained beside their files.

This page and [vernier.schema.json](vernier.schema.json) are generated from the code (`make docs`). Editors use the schema (JSON Schema,
draft 2020-12) to complete and check the file; in VS Code:
`\"json.schemas\": [{ \"fileMatch\": [\"vernier*.json\"], \"url\": \"./docs/vernier.schema.json\" }]`. The schema checks
each value separately; only `--check` checks that names exist and that keys fit together.

See [operating](operating.md#reload) for the keys that you can change while the switch runs.
";

#[test]
fn the_configuration_reference_is_current() {
    let schema = schema().to_value();
    keep("docs/configuration.md", &Page::write(&schema));
    let text = serde_json::to_string_pretty(&schema).unwrap();
    keep("docs/vernier.schema.json", &format!("{text}\n"));
}

/// Objects and choices still to be described, by where they stand.
struct Page<'s> {
    root: &'s Value,
    text: String,
    /// Name of a definition, and every place where it stands.
    places: BTreeMap<&'s str, Vec<String>>,
    /// Definitions in the order in which they are met.
    order: Vec<&'s str>,
}

impl<'s> Page<'s> {
    fn write(root: &'s Value) -> String {
        let mut page = Self {
            root,
            text: HEAD.to_owned(),
            places: BTreeMap::new(),
            order: Vec::new(),
        };
        page.find(root, "");
        page.text += "\n## Top level\n\n";
        page.keys(root);
        for name in page.order.clone() {
            page.definition(name);
        }
        page.text
    }

    fn target(&self, name: &str) -> &'s Value {
        &self.root["$defs"][name]
    }

    /// Notes where definitions stand, in the order of the keys.
    fn find(&mut self, schema: &'s Value, place: &str) {
        let named = reference(schema).filter(|name| !is_plain_text(self.target(name)));
        if let Some(name) = named {
            let places = self.places.entry(name).or_default();
            let is_new = places.is_empty();
            places.push(place.to_owned());
            if is_new {
                self.order.push(name);
                self.find(self.target(name), place);
            }
        }
        let others = choices(schema)
            .into_iter()
            .filter(|choice| choice["type"] != "null");
        let is_lone = others.clone().count() == 1;
        // Names among other choices are described in place.
        for choice in others.filter(|choice| is_lone || reference(choice).is_none()) {
            self.find(choice, place);
        }
        for (key, schema) in ordered(schema) {
            let dot = if place.is_empty() { "" } else { "." };
            self.find(schema, &format!("{place}{dot}{key}"));
        }
        if let Some(items) = schema.get("items") {
            self.find(items, &format!("{place}[]"));
        }
    }

    fn definition(&mut self, name: &'s str) {
        let schema = self.target(name);
        let heading = self.heading(name);
        let words = wrapped(&described(schema));
        let _ = write!(self.text, "\n## {heading}\n\n{words}\n");
        if schema.get("properties").is_some() {
            self.text.push('\n');
            self.keys(schema);
            return;
        }
        let variants = choices(schema);
        let is_told_apart = |variant: &&Value| ordered(variant).len() > 1 || tag(variant).is_some();
        if variants.iter().any(is_told_apart) {
            for variant in variants {
                self.variant(variant);
            }
        } else if variants
            .iter()
            .any(|variant| variant.get("x-options").is_some())
        {
            self.devices(&variants);
        } else if !variants.is_empty() {
            self.text += "\n| value | meaning |\n|---|---|\n";
            for variant in variants {
                let (kind, words) = (self.kind(variant), described(variant));
                let _ = writeln!(self.text, "| {kind} | {words} |");
            }
        }
    }

    /// Title of a definition's section.
    fn heading(&self, name: &str) -> String {
        let places: Vec<_> = self.places[name]
            .iter()
            .map(|place| format!("`{place}`"))
            .collect();
        match &places[..] {
            [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
            _ => places.concat(),
        }
    }

    /// GitHub's name for a heading.
    fn anchor(&self, name: &str) -> String {
        let kept = self.heading(name).to_lowercase();
        let kept = kept
            .chars()
            .filter(|&c| c.is_alphanumeric() || "_- ".contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    }

    fn keys(&mut self, schema: &'s Value) {
        self.text += "| key | type | default | meaning |\n|---|---|---|---|\n";
        for (key, value) in ordered(schema) {
            if value.get("const").is_some() {
                continue;
            }
            let is_required = list(schema, "required").iter().any(|name| name == key);
            let default = match value.get("default") {
                _ if is_required => "required".to_owned(),
                None => "none".to_owned(),
                // A null that is not one of the type's own values.
                Some(Value::Null) if reference(value).is_none() => "none".to_owned(),
                // Its own keys document it.
                Some(Value::Object(_)) if self.has_keys(value) => "as below".to_owned(),
                Some(value) => format!("`{value}`"),
            };
            let (kind, words) = (self.kind(value), described(value));
            let _ = writeln!(self.text, "| `{key}` | {kind} | {default} | {words} |");
        }
    }

    /// Whether it is an object with a table of its own.
    fn has_keys(&self, schema: &'s Value) -> bool {
        let choices = choices(schema);
        let mut all = choices.into_iter().chain([schema]).filter_map(reference);
        all.any(|name| self.target(name).get("properties").is_some())
    }

    /// One form of an object that has several.
    fn variant(&mut self, variant: &'s Value) {
        let words = wrapped(&described(variant));
        let Some((key, value)) = tag(variant) else {
            let kind = self.kind(variant);
            let _ = write!(self.text, "\n### {kind}\n\n{words}\n");
            return;
        };
        let _ = write!(self.text, "\n### `\"{key}\": {value}`\n\n{words}\n");
        if ordered(variant).len() > 1 {
            self.text.push('\n');
            self.keys(variant);
        }
    }

    fn devices(&mut self, variants: &[&'s Value]) {
        self.text += "\n| device | meaning |\n|---|---|\n";
        for variant in variants {
            let words = described(variant);
            let (device, words) = match variant.get("const") {
                Some(Value::String(text)) => (format!("`{text}`"), words),
                _ => words.split_once(": ").map_or_else(
                    || ("any".to_owned(), words.clone()),
                    |(device, words)| (device.to_owned(), sentence(words)),
                ),
            };
            let _ = writeln!(self.text, "| {device} | {words} |");
        }
        for variant in variants {
            let Some(options) = variant.get("x-options").and_then(Value::as_object) else {
                continue;
            };
            let words = described(variant);
            let device = words.split([':', '[']).next().unwrap_or_default();
            let _ = write!(self.text, "\n{device}` takes:\n\n");
            for (key, schema) in options {
                let words = described(schema);
                let is_named = words.starts_with('`');
                let key = if is_named {
                    String::new()
                } else {
                    format!("`{key}`: ")
                };
                let _ = writeln!(
                    self.text,
                    "- {key}{}",
                    if is_named { words } else { uncapital(&words) }
                );
            }
        }
    }

    /// Valid values, in words.
    fn kind(&self, schema: &'s Value) -> String {
        if let Some(name) = reference(schema) {
            let target = self.target(name);
            let what = match target.get("type").and_then(Value::as_str) {
                _ if !self.places.contains_key(name) && !choices(target).is_empty() => {
                    let names: Vec<_> =
                        choices(target).iter().map(|name| self.kind(name)).collect();
                    return names.join(", ");
                }
                _ if !choices(target).is_empty() && name != "Device" => "one of",
                Some("string") if is_plain_text(target) => {
                    let words = described(target);
                    return uncapital(words.trim_end_matches('.'));
                }
                Some("string") => "text",
                _ => "object",
            };
            return format!("[{what}](#{})", self.anchor(name));
        }
        if let Some(value) = schema.get("const") {
            return format!("`{value}`");
        }
        if let Some(Value::Object(properties)) = schema.get("properties") {
            let pairs = properties.iter();
            let pairs =
                pairs.map(|(key, value)| format!("`{{ \"{key}\": … }}`: {}", self.kind(value)));
            return pairs.collect::<Vec<_>>().join("; ");
        }
        let choices: Vec<_> = choices(schema)
            .into_iter()
            .filter(|choice| choice["type"] != "null")
            .map(|choice| self.kind(choice))
            .collect();
        if !choices.is_empty() {
            return choices.join(" or ");
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
            return values.join(", ");
        }
        let types = match schema.get("type") {
            Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(one)) => vec![one.as_str()],
            _ => Vec::new(),
        };
        match types.into_iter().find(|one| *one != "null") {
            Some("boolean") => "true or false".to_owned(),
            Some("integer") => format!("integer{}", range(schema)),
            Some("number") => format!("number{}", range(schema)),
            Some("array") => self.listed(schema),
            Some("string") => "text".to_owned(),
            _ => "`null`".to_owned(),
        }
    }

    fn listed(&self, schema: &'s Value) -> String {
        let parts = list(schema, "prefixItems");
        if !parts.is_empty() {
            let parts: Vec<_> = parts.iter().map(|part| self.kind(part)).collect();
            return format!("pair: {}", parts.join(" and "));
        }
        let items = schema
            .get("items")
            .map_or_else(String::new, |items| self.kind(items));
        let count = |key: &str| schema.get(key).and_then(Value::as_u64);
        match (
            count("minItems").filter(|&least| least > 0),
            count("maxItems"),
        ) {
            (Some(least), Some(most)) => format!("list of {least} to {most}: {items}"),
            (None, Some(most)) => format!("list of at most {most}: {items}"),
            (Some(least), None) => format!("list of {least} at least: {items}"),
            (None, None) => format!("list: {items}"),
        }
    }
}

/// The definition to which a schema, or its only alternative to `null`, refers.
fn reference(schema: &Value) -> Option<&str> {
    let text = schema.get("$ref")?.as_str()?;
    text.strip_prefix("#/$defs/")
}

fn choices(schema: &Value) -> Vec<&Value> {
    let choices = ["anyOf", "oneOf"]
        .iter()
        .filter_map(|key| schema.get(*key)?.as_array());
    choices.flatten().collect()
}

fn list<'s>(schema: &'s Value, key: &str) -> &'s [Value] {
    schema
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Keys of an object, required keys first.
fn ordered(schema: &Value) -> Vec<(&String, &Value)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut keys: Vec<_> = properties.into_iter().flatten().collect();
    let required = list(schema, "required");
    keys.sort_by_key(|(key, _)| {
        let place = required.iter().position(|name| name == *key);
        place.unwrap_or(usize::MAX)
    });
    keys
}

/// The key and the value that tell one form of an object from the others.
fn tag(variant: &Value) -> Option<(&String, &Value)> {
    let mut keys = ordered(variant).into_iter();
    keys.find_map(|(key, schema)| Some((key, schema.get("const")?)))
}

/// A description, fit for a cell of a table.
fn described(schema: &Value) -> String {
    let words = schema
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default();
    words.replace('\n', " ").replace('|', "\\|")
}

/// Text of a form of its own, such as an address, that a word or two describe.
fn is_plain_text(schema: &Value) -> bool {
    schema["type"] == "string" && choices(schema).is_empty() && schema.get("enum").is_none()
}

fn uncapital(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_lowercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// `, 1 to 65,536`.
fn range(schema: &Value) -> String {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64).map(grouped);
    let over = bound("exclusiveMinimum").map(|bound| format!("over {bound}"));
    match (over.or(bound("minimum")), bound("maximum")) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (Some(least), None) => format!(", {least} or more"),
        (None, Some(most)) => format!(", at most {most}"),
        (None, None) => String::new(),
    }
}

/// `1,048,576`.
fn grouped(number: f64) -> String {
    let digits = number.to_string();
    if digits.contains('.') {
        return digits;
    }
    let places = digits.char_indices();
    let groups = places.map(|(at, digit)| {
        let is_start = at > 0 && (digits.len() - at).is_multiple_of(3);
        format!("{}{digit}", if is_start { "," } else { "" })
    });
    groups.collect()
}
