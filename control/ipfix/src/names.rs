//! Numbers of measurement points and classes, which records refer to.

use std::collections::HashMap;

/// Names, numbered from 1 in the order in which they appeared.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
}

impl Names {
    /// The number of a name.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        self.names.push(name.to_owned());
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The names from the one with this index on, with their numbers.
    pub fn from(&self, index: usize) -> impl Iterator<Item = (u32, &str)> {
        let names = (1..).zip(&self.names).skip(index);
        names.map(|(number, name)| (number, name.as_str()))
    }
}
