//! The keys of a JSON Schema.

use std::collections::BTreeSet;

use serde_json::Value;

/// The paths of all keys that hold a value: `ports[].egress.queues[].service`. Keys of alternative kinds are merged;
/// options in a device string (`x-options`) are keys, too.
pub fn keys(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    walk(schema, schema, "", &mut found);
    found
}

fn walk(root: &Value, node: &Value, path: &str, found: &mut BTreeSet<String>) {
    if let Some(reference) = node["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#'));
        return walk(root, target.unwrap_or(&Value::Null), path, found);
    }
    let kinds = ["anyOf", "oneOf", "allOf"].map(|key| node[key].as_array());
    let kinds: Vec<&Value> = kinds.into_iter().flatten().flatten().collect();
    for kind in &kinds {
        walk(root, kind, path, found);
    }
    for properties in ["properties", "x-options"] {
        for (key, value) in node[properties].as_object().into_iter().flatten() {
            let dot = if path.is_empty() { "" } else { "." };
            walk(root, value, &format!("{path}{dot}{key}"), found);
        }
    }
    let is_object = node["properties"].is_object();
    let items = &node["items"];
    if items.is_object() {
        let mut inner = BTreeSet::new();
        walk(root, items, &format!("{path}[]"), &mut inner);
        // A list of plain values is a single key.
        found.extend(
            inner
                .into_iter()
                .map(|key| key.strip_suffix("[]").map_or(key.clone(), str::to_owned)),
        );
    } else if !is_object && kinds.is_empty() && node["type"] != "null" && !path.is_empty() {
        found.insert(path.to_owned());
    }
}
