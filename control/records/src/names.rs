//! Names of ports, classes and methods that reports and exports refer to by index.

use std::collections::HashMap;

/// Distinct names, in the order of their first use.
#[derive(Debug, Default)]
pub struct Names {
    names: Vec<String>,
    indices: HashMap<String, u32>,
}

impl From<Vec<String>> for Names {
    /// If a name occurs twice, its first index counts.
    fn from(names: Vec<String>) -> Self {
        let mut indices = HashMap::with_capacity(names.len());
        for (index, name) in (0..).zip(&names) {
            indices.entry(name.clone()).or_insert(index);
        }
        Self { names, indices }
    }
}

impl Names {
    /// Returns the index of a name, from 0, and adds the name if it is new.
    pub fn index(&mut self, name: &str) -> u32 {
        if let Some(&index) = self.indices.get(name) {
            return index;
        }
        // A report has far fewer names.
        let index = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.to_owned());
        self.indices.insert(name.to_owned(), index);
        index
    }

    /// All of them.
    pub fn all(self) -> Vec<String> {
        self.names
    }

    /// All of them, by index.
    pub fn as_slice(&self) -> &[String] {
        &self.names
    }
}

/// The name at an index; empty if there is none.
pub fn name(names: &[String], index: u32) -> &str {
    names.get(index as usize).map_or("", String::as_str)
}
