//! Names of ports, classes and methods, to which reports and exports refer by number.

use std::collections::HashMap;

/// Names, each once, in the order in which they were asked for.
#[derive(Debug, Default)]
pub struct Names {
    names: Vec<String>,
    indices: HashMap<String, u32>,
}

impl From<Vec<String>> for Names {
    /// Where a name is there twice, its first index counts.
    fn from(names: Vec<String>) -> Self {
        let mut indices = HashMap::with_capacity(names.len());
        for (index, name) in (0..).zip(&names) {
            indices.entry(name.clone()).or_insert(index);
        }
        Self { names, indices }
    }
}

impl Names {
    /// The index of a name, from 0.
    pub fn index(&mut self, name: &str) -> u32 {
        if let Some(&index) = self.indices.get(name) {
            return index;
        }
        // A report has fewer names by far.
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

/// The name at an index; empty where there is none.
pub fn name(names: &[String], index: u32) -> &str {
    names.get(index as usize).map_or("", String::as_str)
}
