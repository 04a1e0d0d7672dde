//! The `OpenAPI` 3.1 document, made from the list of paths and the schemas of the types. (`aide` would do
//! this, but needs an older schemars.)

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::routes::{Form, Route, Schemer};
use records::answers::Problem;

/// The document for these paths.
pub(super) fn document(routes: &[Route]) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schemas = settings
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let mut paths = Map::new();
    for route in routes {
        let operation = operation(route, &mut schemas);
        paths.insert(route.path.to_owned(), json!({ route.method: operation }));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Vernier",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Measurements of a Vernier switch.",
            "description": "Each answer is made from one snapshot, published at the end of an epoch. \
                Durations are in nanoseconds, times in seconds since 1970 (UTC).",
            "license": { "name": "Apache-2.0 OR MIT" },
        },
        "security": [{ "token": [] }, {}],
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The content of the file http.token_file, where one is configured.",
                },
            },
        },
    })
}

fn operation(route: &Route, schemas: &mut SchemaGenerator) -> Value {
    let name = route
        .path
        .trim_start_matches("/api/v1/")
        .replace(['/', '.'], "_");
    let mut operation = json!({
        "operationId": name.trim_start_matches('_'),
        "summary": route.what,
        "responses": responses(route, schemas),
    });
    if let Form::Json { parameters: of, .. } = route.form {
        let mut parameters = parameters(of);
        if route.method == "post" {
            parameters.push(json!({
                "name": "X-Vernier",
                "in": "header",
                "required": true,
                "description": "A header that a web page cannot send.",
                "schema": { "const": "reload" },
            }));
        }
        operation["parameters"] = parameters.into();
    }
    if route.is_open() {
        operation["security"] = json!([]);
    }
    operation
}

fn responses(route: &Route, schemas: &mut SchemaGenerator) -> Map<String, Value> {
    let problem = schemas.subschema_for::<Problem>();
    let problem = json!({ "application/json": { "schema": problem } });
    let (answer, refusal) = match &route.form {
        Form::Text(content_types) => {
            let text = |content_type: &&str| {
                let schema = json!({ "schema": { "type": "string" } });
                ((*content_type).to_owned(), schema)
            };
            let texts: Map<String, Value> = content_types.iter().map(text).collect();
            (texts.clone().into(), texts.into())
        }
        Form::Json { schema, .. } => {
            let schema = schema(schemas);
            let json = json!({ "application/json": { "schema": schema } });
            (json, problem.clone())
        }
    };
    let ok = if route.method == "post" { 202 } else { 200 };
    let host = "The header Host is neither an address, `localhost` nor a name in http.hosts.";
    let mut responses = vec![(ok, route.what, &answer), (403, host, &problem)];
    if !route.is_open() {
        let token = "A token is configured, and the request has none or another.";
        responses.push((401, token, &problem));
    }
    if let Form::Json { .. } = route.form {
        let parameter = "A parameter is unknown, or its value is invalid.";
        let memory = "Too many bytes of answers are in flight; retry in a second.";
        responses.extend([(400, parameter, &problem), (503, memory, &problem)]);
    }
    let own = route.refusals.iter();
    responses.extend(own.map(|&(status, why)| (status, why, &refusal)));
    // A route's own reason replaces the general one of the same status.
    let responses = responses.into_iter().map(|(status, why, content)| {
        let response = json!({ "description": why, "content": content });
        (status.to_string(), response)
    });
    responses.collect()
}

/// The fields of a type as parameters behind the `?`.
fn parameters(of: Schemer) -> Vec<Value> {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut inline = settings
        .with(|settings| settings.inline_subschemas = true)
        .into_generator();
    let schema = of(&mut inline);
    let properties = schema.get("properties").and_then(Value::as_object);
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let description = schema
            .as_object_mut()
            .and_then(|schema| schema.remove("description"));
        json!({
            "name": name,
            "in": "query",
            "required": false,
            "description": description,
            "schema": schema,
        })
    };
    properties.into_iter().flatten().map(parameter).collect()
}
