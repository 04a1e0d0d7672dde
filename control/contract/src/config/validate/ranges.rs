//! Ranges of numbers and lengths of lists, as the fields' own attributes state them: read from the schema.

use std::sync::LazyLock;

use serde_json::{Number, Value};

use super::{Check, KeyPath, count_within, ensure};
use crate::config::{Config, Forwarding, schema};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| schema().into());

/// Every number and every list of a configuration is within the range that the schema gives for it.
pub(super) fn ranges(config: &Config) -> Check {
    let mut config = config.clone();
    if let Forwarding::Bridge { stations, .. } = &mut config.forwarding {
        // There may be a million. Their VLANs are compared with their ports'.
        stations.clear();
    }
    let root = KeyPath::default();
    match serde_json::to_value(config) {
        Ok(value) => within_schema(&SCHEMA, &value, &root),
        Err(error) => ensure(false, root, "what JSON can express", error),
    }
}

fn within_schema(schema: &'static Value, value: &Value, path: &KeyPath) -> Check {
    if let Some(Value::String(reference)) = schema.get("$ref") {
        let referred = SCHEMA.pointer(reference.trim_start_matches('#'));
        debug_assert!(referred.is_some(), "the schema has no {reference}");
        within_schema(referred.unwrap_or(&Value::Null), value, path)?;
    }
    let shapes = ["anyOf", "oneOf"].map(|key| schema.get(key).and_then(Value::as_array));
    for shape in shapes.into_iter().flatten().flatten() {
        if is_of_shape(shape, value) {
            within_schema(shape, value, path)?;
        }
    }
    match value {
        Value::Number(number) => number_within(schema, number, path),
        Value::Array(items) => {
            length_within(schema, items.len(), path)?;
            let Some(schema) = schema.get("items") else {
                return Ok(());
            };
            let mut items = items.iter().enumerate();
            items.try_for_each(|(index, item)| within_schema(schema, item, &path.index(index)))
        }
        Value::Object(members) => {
            let keys = schema.get("properties").and_then(Value::as_object);
            let mut keys = keys.into_iter().flatten();
            keys.try_for_each(|(key, schema)| match members.get(key) {
                Some(member) => within_schema(schema, member, &path.key(key)),
                None => Ok(()),
            })
        }
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

/// Whether a value is of this one of several shapes: it has the keys that the shape requires, and its tag.
fn is_of_shape(shape: &Value, value: &Value) -> bool {
    let required = shape.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    required.all(|key| {
        let tag = shape["properties"][key].get("const");
        let member = value.get(key);
        member.is_some() && (tag.is_none() || tag == member)
    })
}

fn length_within(schema: &Value, length: usize, path: &KeyPath) -> Check {
    let bound = |key| usize::try_from(schema.get(key)?.as_u64()?).ok();
    match (bound("minItems").unwrap_or(0), bound("maxItems")) {
        (least, Some(most)) => count_within(path.clone(), length, least..=most, "entries"),
        // A list that only may not be empty has a check that says what to do.
        (_, None) => Ok(()),
    }
}

fn number_within(schema: &Value, number: &Number, path: &KeyPath) -> Check {
    let bound = |key| schema.get(key).and_then(Value::as_f64);
    let value = number.as_f64().unwrap_or(f64::NAN);
    match (
        bound("minimum"),
        bound("exclusiveMinimum"),
        bound("maximum"),
    ) {
        (Some(least), _, Some(most)) => {
            let expected = format!("{least} to {most}");
            ensure(
                (least..=most).contains(&value),
                path.clone(),
                expected,
                value,
            )
        }
        (_, Some(limit), Some(most)) => {
            let expected = format!("over {limit}, up to {most}");
            ensure(
                limit < value && value <= most,
                path.clone(),
                expected,
                value,
            )
        }
        _ => Ok(()),
    }
}
