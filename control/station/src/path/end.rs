//! The ends of a path as they are asked for.

/// The end of a path: a switch, and perhaps its port: `edge-1` or `edge-1:lan`.
#[derive(Debug, Clone, Copy)]
pub(super) struct End<'a> {
    pub switch: &'a str,
    pub port: Option<&'a str>,
}

impl<'a> From<&'a str> for End<'a> {
    fn from(text: &'a str) -> Self {
        let (switch, port) = match text.split_once(':') {
            Some((switch, port)) => (switch, Some(port)),
            None => (text, None),
        };
        Self { switch, port }
    }
}
