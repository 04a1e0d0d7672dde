//! `make docs` writes what is made from the code; without it the tests check whether that is current.

mod configuration;
mod kept;
mod links;
mod metrics;
mod promql;
mod rules;

pub use kept::{keep, project};

/// A paragraph in lines as long as those of other documents.
pub fn wrapped(words: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in words.split_whitespace() {
        let len = word.chars().count();
        if width > 0 {
            let fits = width + 1 + len <= 120;
            text.push(if fits { ' ' } else { '\n' });
            width = if fits { width + 1 } else { 0 };
        }
        text.push_str(word);
        width += len;
    }
    text
}
