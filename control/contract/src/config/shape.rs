//! The configuration as JSON Schema, derived from the types, from which `docs/configuration.md` and
//! `docs/vernier.schema.json` are generated. Also checks a JSON document against a schema: keys, types, words, ranges
//! of numbers, lengths of lists.
//!
//! serde stops at the first fault; this module finds all of them and describes them for the author of the document.
//! Strings with a format of their own (addresses, devices) are recognised by the name of their definition.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::LazyLock;

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use serde::Serialize;
use serde_json::{Map, Number, Value};

use super::device::Device;
use super::document::{
    self, Check, Invalid, KeyPath, Step, all, count_within, each, ensure, suggestion,
};
use super::{Config, Forwarding, MacAddress, Prefix};

/// The schema's identifier.
pub const SCHEMA_ID: &str = "urn:vernier:configuration:1";

/// JSON Schema (draft 2020-12) of `vernier.json`: keys, types, defaults and ranges, with descriptions from
/// the types' documentation.
///
/// It covers each value separately. Only [`Config::parse`] checks that names refer to something and that
/// keys fit together.
pub fn schema() -> Schema {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<Config>();
    schema.insert("$id".to_owned(), SCHEMA_ID.into());
    schema.insert("title".to_owned(), "Vernier's configuration".into());
    RecursiveTransform(unwrap_lines).transform(&mut schema);
    schema
}

/// Joins lines: comments are wrapped, descriptions are paragraphs.
fn unwrap_lines(schema: &mut Schema) {
    if let Some(Value::String(words)) = schema.get_mut("description") {
        *words = words.replace('\n', " ");
    }
}

static SCHEMA: LazyLock<Value> = LazyLock::new(|| schema().into());

/// Keys of older versions of any configuration, as paths without indices, and what to do instead. Add every key that
/// is removed or renamed.
const REMOVED: [(&str, &str); 2] = [
    ("measurement.lds.bytes", "nothing used its figures; omit it"),
    ("measurement.lds.sds", "nothing used its figures; omit it"),
];

/// Most bytes of a document that is checked for all faults, because parsed values take about ten times as much.
const BYTES_MAX: usize = 16 << 20;

/// Longest string that is quoted, in bytes.
const QUOTED_MAX: usize = 200;

/// The pattern of a name ([`document::name`]).
const NAME: &str = "^[A-Za-z0-9._-]{1,64}$";

/// Checks every number and list of a configuration against the ranges in the schema.
pub(super) fn ranges(config: &Config) -> Check {
    let mut config = config.clone();
    match &mut config.forwarding {
        // There may be a million. Their VLANs are compared with those of their ports.
        Forwarding::Bridge { stations, .. } => stations.clear(),
        // Never in a file, and not in the schema.
        Forwarding::Host => {
            config.forwarding = Forwarding::Patch {
                pairs: vec![Default::default()],
                link_loss_forwarding: false,
            };
        }
        Forwarding::Patch { .. } => {}
    }
    within_ranges(&config, &SCHEMA)
}

/// Checks every number and list of a value against the ranges in its schema.
pub(super) fn within_ranges(value: &impl Serialize, schema: &Value) -> Check {
    let root = KeyPath::default();
    match serde_json::to_value(value) {
        Ok(value) => Shape { root: schema }.check(schema, &value, &root),
        Err(error) => ensure(false, root, "what JSON can express", error),
    }
}

/// All faults of a document by this schema; empty if it is not JSON, or too long.
pub(super) fn faults(text: &str, schema: &Value) -> Vec<Invalid> {
    if text.len() > BYTES_MAX {
        return Vec::new();
    }
    let Ok(value) = serde_json::from_str(text) else {
        return Vec::new();
    };
    let checked = Shape { root: schema }.check(schema, &value, &KeyPath::default());
    let mut faults = checked.err().map_or_else(Vec::new, |faults| faults.0);
    for fault in &mut faults {
        if fault.path.is_secret() && fault.got.is_some() {
            fault.got = Some("something else".to_owned());
        }
    }
    faults
}

/// A whole schema, to which its parts refer.
#[derive(Clone, Copy)]
struct Shape<'s> {
    root: &'s Value,
}

impl<'s> Shape<'s> {
    fn check(self, schema: &'s Value, value: &Value, path: &KeyPath) -> Check {
        if let Some(Value::String(reference)) = schema.get("$ref") {
            if let Some(words) = value.as_str()
                && let Some(parsed) = parsed_as(reference, words)
            {
                return parsed.map_err(|said| Invalid::said(path.clone(), said).into());
            }
            self.check(self.referred(schema), value, path)?;
        }
        for shapes in alternatives(schema) {
            self.one_of(shapes, value, path)?;
        }
        if let Some(kinds) = schema.get("type") {
            let is_right = strings(kinds).any(|kind| is_of_kind(value, kind));
            let expected = names_of(strings(kinds));
            ensure(is_right, path.clone(), expected, described(value))?;
        }
        match value {
            Value::Number(number) => number_within(schema, number, path),
            Value::String(words) => form_of(schema, words, path),
            Value::Array(items) => self.items(schema, items, path),
            Value::Object(members) => self.members(schema, members, path),
            Value::Null | Value::Bool(_) => Ok(()),
        }
    }

    /// Resolves a schema's reference, if it is one.
    fn referred(self, schema: &'s Value) -> &'s Value {
        let Some(Value::String(reference)) = schema.get("$ref") else {
            return schema;
        };
        let referred = self.root.pointer(reference.trim_start_matches('#'));
        debug_assert!(referred.is_some(), "the schema has no {reference}");
        referred.unwrap_or(&Value::Null)
    }

    /// Checks a value that may have one of several shapes. Faults are those of the most similar shape.
    fn one_of(self, shapes: &'s [Value], value: &Value, path: &KeyPath) -> Check {
        let mut flat = Vec::new();
        self.flatten(shapes, &mut flat);
        let whole = |shape: &&(&'s Value, &'s Value)| is_of_shape(shape.1, value);
        if let Some((shape, _)) = flat.iter().find(whole) {
            return self.check(shape, value, path);
        }
        if let (Value::Object(members), Some(tag)) = (value, tag_of(&flat)) {
            return self.tagged(&flat, tag, members, path);
        }
        // The only shape of the right type.
        let mut alike = flat.iter().filter(|(_, shape)| is_nearly(shape, value));
        if let (Some((shape, _)), None) = (alike.next(), alike.next()) {
            return self.check(shape, value, path);
        }
        let hint = suggestion(value.as_str().unwrap_or_default(), words_of(&flat));
        let expected = Self::expected(&flat);
        ensure(false, path.clone(), expected, described(value) + &hint)
    }

    /// Flattens nested alternatives: shapes as written, with their resolved references.
    fn flatten(self, shapes: &'s [Value], flat: &mut Vec<(&'s Value, &'s Value)>) {
        for shape in shapes {
            let referred = self.referred(shape);
            match alternatives(referred).next() {
                Some(inner) => self.flatten(inner, flat),
                None => flat.push((shape, referred)),
            }
        }
    }

    /// Checks an object whose member `tag` names its shape.
    fn tagged(
        self,
        shapes: &[(&'s Value, &'s Value)],
        tag: &'s str,
        members: &Map<String, Value>,
        path: &KeyPath,
    ) -> Check {
        let tag_of = |shape: &'s Value| shape["properties"][tag].get("const");
        let words: Vec<&str> = (shapes.iter())
            .filter_map(|(_, shape)| tag_of(shape)?.as_str())
            .collect();
        let expected = one_of_words(&words);
        let Some(value) = members.get(tag) else {
            let expected = format!("`{tag}`: {expected}");
            return ensure(false, path.clone(), expected, "none");
        };
        let mut shapes = shapes.iter();
        let Some((shape, _)) = shapes.find(|(_, shape)| tag_of(shape) == Some(value)) else {
            let hint = suggestion(value.as_str().unwrap_or_default(), words);
            let got = described(value) + &hint;
            return ensure(false, path.key(tag.to_owned()), expected, got);
        };
        self.members(self.referred(shape), members, path)
    }

    /// Describes these shapes in words.
    fn expected(shapes: &[(&Value, &Value)]) -> String {
        let words = words_of(shapes);
        let objects = shapes.iter();
        let objects = objects.filter_map(|(_, shape)| shape["required"][0].as_str());
        let objects = objects.map(|key| format!("an object with `{key}`"));
        let others = shapes.iter().filter(|(_, shape)| {
            shape.get("const").is_none() && shape["required"][0].as_str().is_none()
        });
        let kinds = others.flat_map(|(_, shape)| strings(&shape["type"]));
        let kinds: Vec<&str> = kinds.collect();
        let mut parts = Vec::new();
        if !words.is_empty() {
            parts.push(one_of_words(&words));
        }
        parts.extend(objects);
        if !kinds.is_empty() {
            parts.push(names_of(kinds.into_iter()));
        }
        parts.join(", or ")
    }

    fn items(self, schema: &'s Value, items: &[Value], path: &KeyPath) -> Check {
        length_within(schema, items.len(), path)?;
        let first = schema.get("prefixItems").and_then(Value::as_array);
        let rest = schema.get("items").into_iter().cycle();
        let schemas = first.into_iter().flatten().chain(rest);
        each(path, items.iter().zip(schemas), |path, (item, schema)| {
            self.check(schema, item, &path)
        })
    }

    fn members(self, schema: &'s Value, members: &Map<String, Value>, path: &KeyPath) -> Check {
        let Some(known) = schema.get("properties").and_then(Value::as_object) else {
            return Ok(());
        };
        let missing = strings(&schema["required"]).filter(|key| !members.contains_key(*key));
        let missing = missing.map(|key| {
            let expected = format!("the key `{key}`");
            ensure(false, path.clone(), expected, "an object without it")
        });
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        let unknown = members.keys();
        let unknown = unknown.filter(|key| is_closed && !known.contains_key(*key));
        let unknown = unknown.map(|key| {
            let path = path.key(key.clone());
            if let Some(said) = removed(&path) {
                return Err(Invalid::said(path, said).into());
            }
            let names = known.keys().map(String::as_str);
            let list: Vec<&str> = names.clone().collect();
            let expected = format!("one of the keys {}", list.join(", "));
            let got = format!("`{key}`{}", suggestion(key, names));
            ensure(false, path, expected, got)
        });
        let members = known.iter().filter_map(|(key, schema)| {
            let member = members.get(key)?;
            Some(self.check(schema, member, &path.key(key.clone())))
        });
        all(missing.chain(unknown).chain(members))
    }
}

/// The replacement of a removed key.
fn removed(path: &KeyPath) -> Option<String> {
    let keys = path.0.iter().filter_map(|step| match step {
        Step::Key(key) => Some(key.as_ref()),
        Step::Index(_) => None,
    });
    let path = keys.collect::<Vec<_>>().join(".");
    let (_, instead) = REMOVED.iter().find(|(removed, _)| *removed == path)?;
    Some(format!("it was removed; {instead}"))
}

/// Faults of a string whose format is known by the name of its definition; `None` for other strings.
fn parsed_as(reference: &str, words: &str) -> Option<Result<(), String>> {
    fn parsed<T: FromStr<Err: ToString>>(words: &str) -> Result<(), String> {
        let value = words.parse::<T>();
        value.map(drop).map_err(|error| error.to_string())
    }
    match reference.trim_start_matches("#/$defs/") {
        "Device" => Some(parsed::<Device>(words)),
        "MacAddress" => Some(parsed::<MacAddress>(words)),
        "Prefix" => Some(parsed::<Prefix>(words)),
        _ => None,
    }
}

/// The member that distinguishes several objects: the first that is constant in each of them.
fn tag_of<'s>(shapes: &[(&'s Value, &'s Value)]) -> Option<&'s str> {
    let mut objects = shapes.iter().filter_map(|(_, shape)| {
        let mut properties = shape.get("properties")?.as_object()?.iter();
        properties.find_map(|(key, member)| member.get("const").map(|_| key.as_str()))
    });
    let tag = objects.next()?;
    objects.all(|other| other == tag).then_some(tag)
}

/// Whether a value matches one of several shapes: it is the shape's word, or an object with the required keys and the
/// tag, or a value of its type.
fn is_of_shape(shape: &Value, value: &Value) -> bool {
    if let Some(word) = shape.get("const") {
        return word == value;
    }
    let has_all = strings(&shape["required"]).all(|key| {
        let tag = shape["properties"][key].get("const");
        let member = value.get(key);
        member.is_some() && (tag.is_none() || tag == member)
    });
    has_all && is_nearly(shape, value)
}

/// Whether a value has the type of a shape.
fn is_nearly(shape: &Value, value: &Value) -> bool {
    let is_any = shape.get("type").is_none();
    shape.get("const").is_none()
        && (is_any || strings(&shape["type"]).any(|kind| is_of_kind(value, kind)))
}

/// The strings of a list, or one alone.
fn strings(list: &Value) -> impl Iterator<Item = &str> {
    let one = list.as_str().into_iter();
    let list = list.as_array().into_iter().flatten();
    one.chain(list.filter_map(Value::as_str))
}

/// Lists of shapes; the value matches one shape of each list.
fn alternatives(schema: &Value) -> impl Iterator<Item = &[Value]> {
    let shapes = ["anyOf", "oneOf"].map(|key| schema.get(key).and_then(Value::as_array));
    shapes.into_iter().flatten().map(Vec::as_slice)
}

/// Constant strings among the shapes.
fn words_of<'s>(shapes: &[(&'s Value, &'s Value)]) -> Vec<&'s str> {
    let words = shapes.iter();
    words
        .filter_map(|(_, shape)| shape.get("const")?.as_str())
        .collect()
}

fn is_of_kind(value: &Value, kind: &str) -> bool {
    match value {
        Value::Null => kind == "null",
        Value::Bool(_) => kind == "boolean",
        Value::Number(number) => kind == "number" || (kind == "integer" && !number.is_f64()),
        Value::String(_) => kind == "string",
        Value::Array(_) => kind == "array",
        Value::Object(_) => kind == "object",
    }
}

/// Names of types in words: `a whole number or null`.
fn names_of<'s>(kinds: impl Iterator<Item = &'s str>) -> String {
    let names = kinds.map(|kind| match kind {
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a string",
        "array" => "a list",
        "object" => "an object",
        other => other,
    });
    let mut names: Vec<&str> = names.collect();
    names.sort_by_key(|&name| name == "null");
    names.join(" or ")
}

fn one_of_words(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// A value in a few words; lists, objects and long strings are not quoted.
fn described(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
        Value::String(words) if words.len() > QUOTED_MAX => {
            format!("a string of {} bytes", words.len())
        }
        other => other.to_string(),
    }
}

/// Checks a string's format.
fn form_of(schema: &Value, words: &str, path: &KeyPath) -> Check {
    if schema.get("pattern").and_then(Value::as_str) == Some(NAME) {
        return document::name(path.clone(), words);
    }
    if schema.get("format").and_then(Value::as_str) == Some("ip") {
        let (is_address, got) = (words.parse::<IpAddr>().is_ok(), format!("{words:?}"));
        return ensure(is_address, path.clone(), "an IP address", got);
    }
    Ok(())
}

fn length_within(schema: &Value, length: usize, path: &KeyPath) -> Check {
    let bound = |key| usize::try_from(schema.get(key)?.as_u64()?).ok();
    match (bound("minItems").unwrap_or(0), bound("maxItems")) {
        (least, Some(most)) => count_within(path.clone(), length, least..=most, "entries"),
        // A list that must only not be empty has a check with better advice.
        (_, None) => Ok(()),
    }
}

fn number_within(schema: &Value, number: &Number, path: &KeyPath) -> Check {
    let bound = |key| schema.get(key).and_then(Value::as_f64);
    let value = number.as_f64().unwrap_or(f64::NAN);
    let within = |holds, expected: String| ensure(holds, path.clone(), expected, value);
    let (least, over) = (bound("minimum"), bound("exclusiveMinimum"));
    match (least, over, bound("maximum")) {
        (Some(least), _, Some(most)) => within(
            (least..=most).contains(&value),
            format!("{least} to {most}"),
        ),
        (_, Some(limit), Some(most)) => within(
            limit < value && value <= most,
            format!("over {limit}, up to {most}"),
        ),
        (Some(least), _, None) => within(value >= least, format!("{least} or more")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
