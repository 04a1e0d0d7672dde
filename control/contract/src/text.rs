//! Cleans text from outside before it is kept or shown, and writes text to standard output.

use std::error::Error;
use std::io::{self, Write};

/// Whether a character may be shown: one that neither controls a terminal nor affects the order or visibility of its
/// neighbours.
pub fn is_shown(c: char) -> bool {
    let is_invisible = matches!(
        c,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    !c.is_control() && !is_invisible
}

/// Removes characters that may not be shown.
pub fn clean(text: &mut String) {
    if !text.chars().all(is_shown) {
        text.retain(is_shown);
    }
}

/// Returns the words of an error and of its causes, without causes that the words before them contain already.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !words.contains(&why) {
            words = format!("{words}: {why}");
        }
        cause = error.source();
    }
    words
}

/// Writes to standard output. A closed pipe (`| head`) is not an error.
///
/// # Errors
/// The system's.
pub fn say(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_reversed_text_are_removed_and_letters_stay() {
        for (text, expected) in [
            ("\u{1b}[31mlan\u{1b}[0m", "[31mlan[0m"),
            ("wan\r\nfake 200 OK\u{7}\u{9b}2J", "wanfake 200 OK2J"),
            ("\u{202e}nal\u{2066}", "nal"),
            ("Zürich 1 \"a\\b\"", "Zürich 1 \"a\\b\""),
        ] {
            let mut text = text.to_owned();
            clean(&mut text);
            assert_eq!(text, expected);
        }
    }
}
