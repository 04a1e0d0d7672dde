//! Finds the series and labels that a `PromQL` expression uses. This is not a parser: `promtool` checks expressions;
//! here they are only split into words.

use std::collections::BTreeSet;

/// A piece of an expression.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

/// A series in an expression, with its labels.
#[derive(Debug, PartialEq)]
pub(super) struct Selector {
    pub(super) name: String,
    pub(super) labels: BTreeSet<String>,
}

/// The parts of an expression: its selectors, and the labels that it groups or matches by.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Asked {
    pub(super) selectors: Vec<Selector>,
    pub(super) labels: BTreeSet<String>,
}

/// Words after which a list of labels comes.
const GROUPING: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

/// Words that are no series, though no parenthesis follows.
const OPERATORS: [&str; 8] = [
    "and", "or", "unless", "bool", "offset", "atan2", "Inf", "NaN",
];

fn tokens(expression: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut letters = expression.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_of_word = |c: &char| c.is_ascii_alphanumeric() || "_:".contains(*c);
        match letter {
            '"' | '\'' => {
                let mut text = String::new();
                while let Some(next) = letters.next().filter(|&next| next != letter) {
                    text.push(next);
                    if next == '\\' {
                        text.extend(letters.next());
                    }
                }
                tokens.push(Token::Text(text));
            }
            '#' => while letters.next_if(|&next| next != '\n').is_some() {},
            c if is_of_word(&c) => {
                let mut word = String::from(c);
                // A number may have a point in it, a name never.
                let is_number = c.is_ascii_digit();
                let goes_on = |next: &char| is_of_word(next) || (is_number && *next == '.');
                while let Some(next) = letters.next_if(goes_on) {
                    word.push(next);
                }
                tokens.push(Token::Word(word));
            }
            c if c.is_whitespace() => {}
            c => tokens.push(Token::Sign(c)),
        }
    }
    tokens
}

/// Words directly before `=`, `!` or `,` and the end, up to the sign that closes; and what is left.
fn listed(tokens: &[Token], close: char) -> (BTreeSet<String>, &[Token]) {
    let end = tokens.iter().position(|token| *token == Token::Sign(close));
    let (inside, after) = tokens.split_at(end.unwrap_or(tokens.len()));
    let words = inside.iter().filter_map(|token| match token {
        Token::Word(word) => Some(word.clone()),
        _ => None,
    });
    (words.collect(), after)
}

/// Reads an expression.
pub(super) fn asked(expression: &str) -> Asked {
    let tokens = tokens(expression);
    let mut asked = Asked::default();
    let mut left = &tokens[..];
    while let [first, after @ ..] = left {
        left = after;
        let Token::Word(word) = first else {
            // A range or an offset in brackets.
            if *first == Token::Sign('[') {
                left = listed(after, ']').1;
            }
            continue;
        };
        let is_list = after.first() == Some(&Token::Sign('('));
        if GROUPING.contains(&word.as_str()) {
            if is_list {
                let (labels, after) = listed(after, ')');
                asked.labels.extend(labels);
                left = after;
            }
        } else if after.first() == Some(&Token::Sign('{')) {
            let (labels, after) = listed(after, '}');
            let name = word.clone();
            asked.selectors.push(Selector { name, labels });
            left = after;
        } else if !is_list
            && !OPERATORS.contains(&word.as_str())
            && !word.starts_with(|c: char| c.is_ascii_digit())
            // `sum by (a) (x)`: the function's name stands before its grouping.
            && !matches!(after.first(), Some(Token::Word(next)) if GROUPING[..2].contains(&next.as_str()))
        {
            let (name, labels) = (word.clone(), BTreeSet::new());
            asked.selectors.push(Selector { name, labels });
        }
    }
    asked
}

#[test]
fn series_and_labels_are_told_from_functions_numbers_and_texts() {
    let all = asked(
        r#"sum by (segment, class) (rate(vernier_a_total{port=~"x{y}|\"z\"", reason!="by"}[5m] offset 1d)) # vernier_no
           / on (segment) group_left (method) vernier:b:ratio5m > bool 1e3
           and histogram_quantile(0.99, sum(rate(vernier_c_bucket[1m:10s])) by (le)) unless 0.5 < vernier_d"#,
    );
    let selector = |name: &str, labels: &[&str]| Selector {
        name: name.to_owned(),
        labels: labels.iter().map(ToString::to_string).collect(),
    };
    let expected = [
        selector("vernier_a_total", &["port", "reason"]),
        selector("vernier:b:ratio5m", &[]),
        selector("vernier_c_bucket", &[]),
        selector("vernier_d", &[]),
    ];
    assert_eq!(all.selectors, expected);
    let labels: Vec<_> = all.labels.iter().map(String::as_str).collect();
    assert_eq!(labels, ["class", "le", "method", "segment"]);
}
