//! A configuration that may have faults, for those who look for more of them.

use serde_json::Value;

use super::Config;
use super::parse::{ConfigError, Misshapen, parse_shape, read_file, value_error};
use super::validate::{Check, Faults, KeyPath, Step, validate};

/// A configuration file as far as it can be understood, and all that is wrong with it so far: what else is wrong can be
/// looked for and said in one go.
#[derive(Debug)]
pub struct Candidate {
    origin: String,
    text: String,
    config: Config,
    faults: Faults,
}

impl Candidate {
    /// Reads a file. Values of a wrong kind and unknown keys are left out of its configuration, which is only good for
    /// looking at then.
    ///
    /// # Errors
    /// [`ConfigError`]: not readable, not JSON, or wrong in a part that everything else depends on.
    pub fn load(path: impl AsRef<std::path::Path>) -> Result<Self, ConfigError> {
        let (text, origin) = read_file(path.as_ref())?;
        Self::parse(text, origin)
    }

    fn parse(text: String, origin: String) -> Result<Self, ConfigError> {
        let (config, faults) = match parse_shape::<Config>(&text, &origin) {
            Ok(mut config) => {
                config.settle_here();
                let checked = validate(&config);
                (config, checked.err().unwrap_or(Faults(Vec::new())))
            }
            Err(Misshapen::NoJson(error)) => return Err(error),
            Err(Misshapen::Values(faults)) => match without(&text, &faults) {
                Some(mut config) => {
                    config.settle_here();
                    (config, faults)
                }
                None => return Err(value_error(&origin, &text, faults)),
            },
        };
        Ok(Self {
            origin,
            text,
            config,
            faults,
        })
    }

    /// What the file spells, as far as it can be understood.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether something is wrong at `path`, below it or above it.
    pub fn is_faulty_at(&self, path: &KeyPath) -> bool {
        self.faults.0.iter().any(|fault| fault.path.is_near(path))
    }

    /// Whether something is wrong.
    pub fn is_faulty(&self) -> bool {
        !self.faults.0.is_empty()
    }

    /// The configuration and what was made by it, if nothing is wrong.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`]: all that was wrong, and what `found` adds elsewhere.
    pub fn finish<T>(mut self, found: Check<T>) -> Result<(Config, T), ConfigError> {
        match found {
            Ok(made) if !self.is_faulty() => return Ok((self.config, made)),
            Ok(_) => {}
            Err(Faults(mut more)) => {
                more.retain(|fault| !self.is_faulty_at(&fault.path));
                self.faults.0.extend(more);
            }
        }
        Err(value_error(&self.origin, &self.text, self.faults))
    }
}

/// What a text spells but for the members at these paths; `None` where that is no configuration.
fn without(text: &str, faults: &Faults) -> Option<Config> {
    let mut json: Value = serde_json::from_str(text).ok()?;
    for fault in &faults.0 {
        let (last, before) = fault.path.0.split_last()?;
        let member = before.iter().try_fold(&mut json, |value, step| match step {
            Step::Key(key) => value.get_mut(key.as_ref()),
            Step::Index(index) => value.get_mut(index),
        });
        // A list cannot do without one of its entries: those behind it would be in other places.
        if let (Some(Value::Object(members)), Step::Key(key)) = (member, last) {
            members.remove(key.as_ref());
        }
    }
    serde_json::from_value(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse::tests::{PATCH, error, patched};
    use crate::config::validate::Invalid;

    /// All that a candidate says, line by line, when `found` says nothing.
    fn said(text: &str) -> Vec<String> {
        let candidate = Candidate::parse(text.to_owned(), "v.json".to_owned()).unwrap();
        let error = candidate.finish(Ok(())).unwrap_err().to_string();
        error.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_range_hides_no_name() {
        let text = patched(
            r#""mode": "patch""#,
            r#""mode": "patch", "link_loss_forwarding": false"#,
        );
        let text = text.replace(r#"["east", "west"]"#, r#"["east", "wst"]"#);
        let text = text.replacen(
            '{',
            r#"{ "measurement": { "interval_ms": 1 }, "workers": [{ "core": 1 }, { "core": 1 }],"#,
            1,
        );
        for said in [
            said(&text),
            error(&text).lines().map(str::to_owned).collect(),
        ] {
            assert_eq!(said.len(), 3, "{said:?}");
            for (line, what) in said.iter().zip([
                "interval_ms: expected 10 to 60000",
                "a CPU of its own",
                "did you mean `west`?",
            ]) {
                assert!(line.contains(what), "{line}");
            }
        }
    }

    #[test]
    fn what_a_candidate_is_made_of_is_good_for_looking_at() {
        let text = PATCH.replacen(
            '{',
            r#"{ "mesurement": 1, "memory_budget_mib": "x", "name": "a b", "#,
            1,
        );
        let candidate = Candidate::parse(text, "v.json".to_owned()).unwrap();
        assert!(candidate.is_faulty());
        assert_eq!(candidate.config().ports.len(), 2);
        let root = KeyPath::default();
        assert!(candidate.is_faulty_at(&root.key("memory_budget_mib")));
        assert!(!candidate.is_faulty_at(&root.key("ports").index(0)));
        // What is found where something was left out is no news.
        let device = Invalid::said(root.key("ports").index(0).key("device"), "no such device");
        let budget = Invalid::said(root.key("memory_budget_mib"), "too little");
        let found: Check = Err(Faults(vec![device, budget]));
        let error = candidate.finish(found).unwrap_err().to_string();
        assert_eq!(error.matches("no such device").count(), 1, "{error}");
        assert!(!error.contains("too little"), "{error}");
        assert!(error.contains("did you mean `measurement`?"), "{error}");

        // Without a configuration nothing can be looked for.
        for text in [
            "",
            "{",
            "[]",
            "{}",
            &patched(r#""device": "sink""#, r#""device": 7"#),
        ] {
            assert!(
                Candidate::parse(text.to_owned(), "v.json".to_owned()).is_err(),
                "{text}"
            );
        }
        let candidate = Candidate::parse(PATCH.to_owned(), "v.json".to_owned()).unwrap();
        let (config, ()) = candidate.finish(Ok(())).unwrap();
        assert_eq!(config, Config::parse(PATCH, "v.json").unwrap());
    }
}
