//! The `OpenAPI` 3.1 document, made from the list of paths and the types' own schemas. (`aide`, which
//! would do this, is for an older schemars.)

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::routes::{Form, Route, Schemer};
use records::answers::Problem;

/// The document that describes these paths.
pub(super) fn document(routes: &[Route]) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schemas = settings
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let mut paths = Map::new();
    for route in routes {
        let (method, operation) = operation(route, &mut schemas);
        paths.insert(route.path.to_owned(), json!({ method: operation }));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Vernier",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "What a Vernier switch has measured.",
            "description": "All of one answer is of one snapshot, published at the end of an epoch. \
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
                    "description": "What stands in the file of http.token_file, where one is configured.",
                },
            },
        },
    })
}

fn operation(route: &Route, schemas: &mut SchemaGenerator) -> (&'static str, Value) {
    let name = route
        .path
        .trim_start_matches("/api/v1/")
        .replace(['/', '.'], "_");
    let mut operation = json!({
        "operationId": name.trim_start_matches('_'),
        "summary": route.what,
    });
    let problem = schemas.subschema_for::<Problem>();
    let refusal = |why: &str| json!({ "description": why, "content": { "application/json": { "schema": problem } } });
    let mut responses = Map::new();
    let mut method = "get";
    responses.insert(
        "403".to_owned(),
        refusal("The header Host is neither an address, `localhost` nor a name of http.hosts."),
    );
    match &route.form {
        Form::Text(content_type) => {
            let content = json!({ *content_type: { "schema": { "type": "string" } } });
            responses.insert(
                "200".to_owned(),
                json!({ "description": route.what, "content": content }),
            );
            if route.path == "/readyz" {
                responses.insert(
                    "503".to_owned(),
                    json!({ "description": "What it waits for, a line each.", "content": content }),
                );
            }
        }
        Form::Json {
            is_post,
            parameters: asked,
            schema,
            refusals,
        } => {
            let schema = schema(schemas);
            let status = if *is_post { "202" } else { "200" };
            let content = json!({ "application/json": { "schema": schema } });
            responses.insert(
                status.to_owned(),
                json!({ "description": route.what, "content": content }),
            );
            let mut parameters = parameters(*asked);
            if *is_post {
                method = "post";
                parameters.push(json!({
                    "name": "X-Vernier",
                    "in": "header",
                    "required": true,
                    "description": "Shows that no web page asks.",
                    "schema": { "const": "reload" },
                }));
            }
            responses.insert(
                "400".to_owned(),
                refusal("A parameter is unknown or has a value that means nothing."),
            );
            responses.insert(
                "503".to_owned(),
                refusal("Too many bytes of answers wait for their clients: ask again in a second."),
            );
            for (status, why) in *refusals {
                responses.insert(status.to_string(), refusal(why));
            }
            operation["parameters"] = parameters.into();
        }
    }
    if route.is_open() {
        operation["security"] = json!([]);
    } else {
        responses.insert(
            "401".to_owned(),
            refusal("A token is configured, and was not shown."),
        );
    }
    operation["responses"] = responses.into();
    (method, operation)
}

/// The fields of a type as parameters behind the `?`.
fn parameters(asked: Schemer) -> Vec<Value> {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut inline = settings
        .with(|settings| settings.inline_subschemas = true)
        .into_generator();
    let schema = asked(&mut inline);
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
