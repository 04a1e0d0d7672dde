use std::collections::BTreeSet;

use serde_json::json;

use super::*;

fn document() -> Value {
    let (server, _) = serve(example());
    fetch(&server, "/api/v1/openapi.json").json()
}

/// Schemas that allow no property that they do not name.
fn strict(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") {
                object.insert("additionalProperties".to_owned(), json!(false));
            }
            object.values_mut().for_each(strict);
        }
        Value::Array(items) => items.iter_mut().for_each(strict),
        _ => {}
    }
}

/// All errors of `value` by the schema that stands somewhere in the document.
fn errors(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut root = schema.clone();
    root["components"] = document["components"].clone();
    root["components"]["schemas"]
        .as_object_mut()
        .unwrap()
        .values_mut()
        .for_each(strict);
    let validator = jsonschema::draft202012::new(&root).unwrap();
    let errors = validator.iter_errors(value);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// A query with a value for every parameter of an operation that can stand beside others.
fn query(path: &str, operation: &Value) -> String {
    if path == "/api/v1/flow" {
        return "?source=10.0.0.1:1027&destination=10.0.0.2:80&protocol=tcp".to_owned();
    }
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let given = parameters.map(|parameter| {
        let schema = &parameter["schema"];
        let choice = schema
            .pointer("/oneOf/0/const")
            .or(schema.pointer("/enum/0"));
        let choice = choice.or(schema.pointer("/anyOf/0/oneOf/0/const"));
        let value = match (choice, &schema["type"]) {
            (Some(choice), _) => choice.as_str().unwrap(),
            (None, kind) if kind == "integer" || schema.get("maximum").is_some() => "0",
            (None, _)
                if schema
                    .get("pattern")
                    .or(schema.pointer("/anyOf/0/pattern"))
                    .is_some() =>
            {
                "10.0.0.0/8"
            }
            (None, kind) if kind == "boolean" => "true",
            (None, _) => "east",
        };
        format!("{}={value}", parameter["name"].as_str().unwrap())
    });
    format!("?{}", given.collect::<Vec<_>>().join("&"))
}

#[test]
fn every_path_is_described_and_nothing_else() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    let described: BTreeSet<_> = document["paths"].as_object().unwrap().keys().collect();
    let routes = routes::routes();
    let paths: Vec<String> = routes.iter().map(|route| route.path.to_owned()).collect();
    assert_eq!(described, paths.iter().collect());
    // The router itself knows each by the method that is described, and no other.
    let (server, _) = serve(example());
    for (path, methods) in document["paths"].as_object().unwrap() {
        let methods: Vec<_> = methods.as_object().unwrap().keys().collect();
        let allowed = request(&server, "PATCH", path, &[]);
        assert_eq!(allowed.status, 405, "{path}");
        let expected = match methods[..] {
            [method] if method == "get" => "GET,HEAD",
            [method] if method == "post" => "POST",
            _ => panic!("{path}: {methods:?}"),
        };
        assert_eq!(allowed.header("allow"), Some(expected), "{path}");
    }
}

#[test]
fn real_answers_are_as_described() {
    let document = document();
    let (server, _) = serve(example());
    for (path, methods) in document["paths"].as_object().unwrap() {
        let operation = &methods["get"];
        let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        if !schema.is_object() {
            continue;
        }
        let mut targets = vec![format!("{path}{}", query(path, operation))];
        if path != "/api/v1/flow" {
            targets.push(path.clone());
        }
        for target in targets {
            let answer = fetch(&server, &target);
            assert_eq!(answer.status, 200, "{target}: {answer:?}");
            let errors = errors(&document, schema, &answer.json());
            assert_eq!(errors, [""; 0], "{target}");
        }
    }
    // Not everything passes.
    let schema = &json!({ "$ref": "#/components/schemas/Status" });
    assert_ne!(errors(&document, schema, &json!({})), [""; 0]);
    let mut status = fetch(&server, "/api/v1/status").json();
    status["pools"][0]["used"] = json!("many");
    assert_eq!(errors(&document, schema, &status).len(), 1);
}

#[test]
fn refusals_are_as_described() {
    let document = document();
    let (server, _) = serve(Snapshot::default());
    let of = |path: &str, method: &str, status: u16| {
        let responses = &document["paths"][path][method]["responses"];
        responses[status.to_string()]["content"]["application/json"]["schema"].clone()
    };
    for (method, target, status) in [
        ("GET", "/api/v1/flows?limit=x", 400),
        ("GET", "/api/v1/config", 503),
        ("POST", "/api/v1/reload", 403),
    ] {
        let answer = request(&server, method, target, &[]);
        assert_eq!(answer.status, status, "{target}");
        let path = target.split('?').next().unwrap();
        let schema = of(path, &method.to_lowercase(), status);
        assert!(schema.is_object(), "{target}: {status} is not described");
        assert_eq!(errors(&document, &schema, &answer.json()), [""; 0]);
    }
    let schema = of("/api/v1/reload", "post", 202);
    let empty = errors(&document, &schema, &json!({ "after": 1 }));
    assert!(!schema.is_object() || empty.is_empty());
}

#[test]
fn all_that_is_referred_to_is_there() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(reference)) = object.get("$ref") {
                    found.insert(reference.clone());
                }
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 20, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}
