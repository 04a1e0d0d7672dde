//! What is asked for behind the `?`: parsed strictly, so that a slip of the pen is an error and not
//! another question.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use measure::packet::FlowKey;
use records::answers::{CourseQuery, FlowState, SegmentFilter, Width};
use records::snapshot::{FlowOrder, FlowQuery};
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::refusal::Refusal;

/// Flows of an answer where nothing is said of it.
pub const FLOWS_DEFAULT: usize = 100;

/// Most flows of an answer.
pub const FLOWS_MAX: usize = 10_000;

/// Segments with courses of an answer where nothing is said of it.
pub const COURSES_DEFAULT: usize = 100;

/// Most segments with courses of an answer.
pub const COURSES_MAX: usize = 500;

/// The parameters of a request.
pub(super) struct Asked<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let Query(asked) = Query::try_from_uri(&parts.uri).map_err(|error| {
            // The cause names the parameter; the words around it say nothing more.
            let words = error
                .source()
                .map_or_else(|| error.body_text(), ToString::to_string);
            Refusal::bad_request(words)
        })?;
        Ok(Self(asked))
    }
}

/// No parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Which ports are wanted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PortFilter {
    /// Only the port of this name.
    pub(super) name: Option<String>,
}

/// Which courses are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CourseFilter {
    /// Only of this ingress port.
    ingress: Option<String>,
    /// Only of this egress port.
    egress: Option<String>,
    /// Only of this class.
    class: Option<String>,
    /// Only buckets of so many seconds: 1 (the last minute), 10 (ten minutes) or 60 (an hour).
    width_s: Option<Width>,
    /// How many segments are left out at the beginning.
    #[serde(deserialize_with = "number::<_, { usize::MAX }>")]
    offset: usize,
    /// How many segments are wanted at most.
    #[serde(deserialize_with = "number::<_, COURSES_MAX>")]
    #[schemars(range(max = 500))]
    limit: usize,
}

impl Default for CourseFilter {
    fn default() -> Self {
        Self {
            ingress: None,
            egress: None,
            class: None,
            width_s: None,
            offset: 0,
            limit: COURSES_DEFAULT,
        }
    }
}

impl CourseFilter {
    pub(super) fn into_query(self) -> CourseQuery {
        CourseQuery {
            segments: SegmentFilter {
                ingress: self.ingress,
                egress: self.egress,
                class: self.class,
            },
            width: self.width_s,
            offset: self.offset,
            limit: self.limit,
        }
    }
}

/// Which flows are wanted, and in which order.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FlowsAsked {
    /// Those in the directory, or those that were forgotten last.
    pub(super) state: FlowState,
    /// By what they are ordered, the greatest first.
    sort: FlowOrder,
    /// The least first.
    #[serde(deserialize_with = "yes_or_no")]
    ascending: bool,
    /// How many are left out at the beginning.
    #[serde(deserialize_with = "number::<_, { usize::MAX }>")]
    offset: usize,
    /// How many are wanted at most.
    #[serde(deserialize_with = "number::<_, FLOWS_MAX>")]
    #[schemars(range(max = 10_000))]
    limit: usize,
    /// Only of this ingress port.
    ingress: Option<String>,
    /// Only of this egress port.
    egress: Option<String>,
    /// Only of this class.
    class: Option<String>,
    /// Only those in whose name this text is.
    contains: Option<String>,
}

impl Default for FlowsAsked {
    fn default() -> Self {
        Self {
            state: FlowState::default(),
            sort: FlowOrder::default(),
            ascending: false,
            offset: 0,
            limit: FLOWS_DEFAULT,
            ingress: None,
            egress: None,
            class: None,
            contains: None,
        }
    }
}

impl FlowsAsked {
    pub(super) fn into_query(self) -> FlowQuery {
        FlowQuery {
            sort: self.sort,
            ascending: self.ascending,
            offset: self.offset,
            limit: Some(self.limit),
            ingress: self.ingress,
            egress: self.egress,
            class: self.class,
            contains: self.contains,
        }
    }
}

/// Which flow is wanted: `flow`, or the three others.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FlowAsked {
    /// The flow as it is shown, `10.0.0.1:1024>10.0.0.2:80/tcp`; in an address `>` is written `%3E`.
    flow: Option<String>,
    /// Its source, `10.0.0.1:1024`, `[fd00::1]:1024`, or an address alone where there are no ports.
    source: Option<String>,
    /// Its destination, likewise.
    destination: Option<String>,
    /// Its protocol: `tcp`, `udp`, `sctp`, `icmp`, `icmpv6` or a number; `0x0806` or `0x0806/vlan7`
    /// between MAC addresses.
    protocol: Option<String>,
}

impl FlowAsked {
    pub(super) fn key(&self) -> Result<FlowKey, Refusal> {
        let refuse = |name: &str, error| Refusal::bad_request(format!("{name}: {error}"));
        match self {
            Self {
                flow: Some(flow),
                source: None,
                destination: None,
                protocol: None,
            } => flow.parse().map_err(|error| refuse("flow", error)),
            Self {
                flow: None,
                source: Some(source),
                destination: Some(destination),
                protocol: Some(protocol),
            } => format!("{source}>{destination}/{protocol}")
                .parse()
                .map_err(|error| refuse("source, destination, protocol", error)),
            _ => Err(Refusal::bad_request(
                "expected `flow` alone, or `source`, `destination` and `protocol`",
            )),
        }
    }
}

/// A number up to `MAX`, digits only.
fn number<'de, D: Deserializer<'de>, const MAX: usize>(text: D) -> Result<usize, D::Error> {
    let expected = move |f: &mut fmt::Formatter<'_>| match MAX {
        usize::MAX => f.write_str("a number"),
        most => write!(f, "a number from 0 to {most}"),
    };
    let parse = |text: &str| text.parse().ok().filter(|&number| number <= MAX);
    text.deserialize_str(Word::new(expected, parse))
}

fn yes_or_no<'de, D: Deserializer<'de>>(text: D) -> Result<bool, D::Error> {
    let expected = |f: &mut fmt::Formatter<'_>| f.write_str("`true` or `false`");
    text.deserialize_str(Word::new(expected, |text: &str| text.parse().ok()))
}

/// Reads one word, and says what it should have been.
struct Word<E, P, T> {
    expected: E,
    parse: P,
    value: PhantomData<T>,
}

impl<E, P, T> Word<E, P, T> {
    fn new(expected: E, parse: P) -> Self {
        Self {
            expected,
            parse,
            value: PhantomData,
        }
    }
}

impl<E, P, T> Visitor<'_> for Word<E, P, T>
where
    E: Fn(&mut fmt::Formatter<'_>) -> fmt::Result,
    P: Fn(&str) -> Option<T>,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.expected)(f)
    }

    fn visit_str<Failure: serde::de::Error>(self, text: &str) -> Result<T, Failure> {
        let wrong = || Failure::invalid_value(Unexpected::Str(text), &self);
        (self.parse)(text).ok_or_else(wrong)
    }
}
