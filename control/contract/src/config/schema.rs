//! The configuration as JSON Schema, from the types themselves: what `docs/configuration.md` and
//! `docs/vernier.schema.json` are made of.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::Value;

use super::Config;

/// The schema's name for itself.
pub const SCHEMA_ID: &str = "urn:vernier:configuration:1";

/// JSON Schema (draft 2020-12) of `vernier.json`: keys, types, defaults and ranges, described in the
/// words of this module's documentation.
///
/// It says what a value may be by itself. That names refer to something that is there, and that all
/// fits together, is checked by [`Config::parse`] alone.
pub fn schema() -> Schema {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<Config>();
    schema.insert("$id".to_owned(), SCHEMA_ID.into());
    schema.insert("title".to_owned(), "Vernier's configuration".into());
    RecursiveTransform(unwrap_lines).transform(&mut schema);
    schema
}

/// Comments are broken into lines where their width says; descriptions are paragraphs.
fn unwrap_lines(schema: &mut Schema) {
    if let Some(Value::String(words)) = schema.get_mut("description") {
        *words = words.replace('\n', " ");
    }
}

#[cfg(test)]
mod tests;
