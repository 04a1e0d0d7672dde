//! What the live table shows, and what the user chose.

use std::sync::Arc;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::classes::{ClassRow, class_rows};
use super::feed::{Request, Update};
use crate::client::ClientError;
use crate::view::packets_per_s;
use records::answers::{CourseQuery, FlowOrder, FlowPage, FlowQuery, Width};
use records::history::Course;
use records::snapshot::{Segment, Snapshot};

/// Flows that are asked for: some screens of them.
const FLOWS_MAX: usize = 200;

/// Rows that a page key moves by.
const PAGE: usize = 10;

/// Effect of a key press on the program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyEffect {
    Stay,
    Quit,
}

/// The table in the middle of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Segments,
    Flows,
    Classes,
}

impl Tab {
    pub(super) const ALL: [Self; 3] = [Self::Segments, Self::Flows, Self::Classes];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Segments => "segments",
            Self::Flows => "flows",
            Self::Classes => "classes",
        }
    }

    /// By what it can be ordered; the first is the default.
    fn sorts(self) -> &'static [Sort] {
        match self {
            Self::Segments | Self::Classes => &[
                Sort::Configuration,
                Sort::Packets,
                Sort::Lost,
                Sort::Mean,
                Sort::Stddev,
                Sort::P99,
            ],
            Self::Flows => &[Sort::Packets, Sort::Lost, Sort::Mean, Sort::Stddev],
        }
    }
}

/// By what rows are ordered, greatest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Configuration,
    Packets,
    Lost,
    Mean,
    Stddev,
    P99,
}

impl Sort {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Configuration => "as configured",
            Self::Packets => "by packets/s",
            Self::Lost => "by lost packets",
            Self::Mean => "by mean",
            Self::Stddev => "by stddev",
            Self::P99 => "by p99",
        }
    }

    fn of_segment(self, snapshot: &Snapshot, segment: &Segment) -> f64 {
        let stamped = snapshot.fresh(segment).and_then(|last| last.stamped);
        match self {
            Self::Configuration => 0.0,
            Self::Packets => packets_per_s(snapshot, segment),
            Self::Lost => segment.total.counts.dropped_packets as f64,
            Self::Mean => stamped.map_or(-1.0, |stamped| stamped.mean_ns),
            Self::Stddev => stamped.map_or(-1.0, |stamped| stamped.stddev_ns),
            Self::P99 => stamped.map_or(-1.0, |stamped| stamped.p99_ns),
        }
    }

    fn of_class(self, class: &ClassRow) -> f64 {
        match self {
            Self::Configuration => 0.0,
            Self::Packets => class.packets_per_s,
            Self::Lost => class.lost_packets as f64,
            Self::Mean => class.mean_ns.unwrap_or(-1.0),
            Self::Stddev => class.stddev_ns.unwrap_or(-1.0),
            Self::P99 => class.p99_max_ns.unwrap_or(-1.0),
        }
    }

    fn of_flows(self) -> FlowOrder {
        match self {
            Self::Lost => FlowOrder::Lost,
            Self::Mean => FlowOrder::Mean,
            Self::Stddev => FlowOrder::Stddev,
            Self::Configuration | Self::Packets | Self::P99 => FlowOrder::Packets,
        }
    }
}

/// The next longer span of the chart, and after the longest the shortest.
fn next(width: Width) -> Width {
    match width {
        Width::Second => Width::TenSeconds,
        Width::TenSeconds => Width::Minute,
        Width::Minute => Width::Second,
    }
}

/// The span of the chart with buckets of this width.
pub(super) fn span(width: Width) -> &'static str {
    match width {
        Width::Second => "last minute",
        Width::TenSeconds => "last ten minutes",
        Width::Minute => "last hour",
    }
}

/// All that the table shows, and what the user chose.
#[derive(Debug)]
pub(super) struct App {
    pub snapshot: Arc<Snapshot>,
    /// The flows on the screen; `None` before they have come.
    pub flows: Option<FlowPage>,
    /// The course that was last answered, and its query.
    course: Option<(CourseQuery, Course)>,
    /// Why this is not the latest.
    pub trouble: Option<String>,
    pub tab: Tab,
    /// Width of the chart's buckets.
    pub width: Width,
    /// For each tab, index of the chosen order.
    sorts: [usize; Tab::ALL.len()],
    /// Index of a segment in the snapshot.
    pub selected: usize,
    /// Index of a flow on the page.
    pub selected_flow: usize,
    /// Name of a class; empty: the first.
    selected_class: String,
}

impl App {
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            snapshot,
            flows: None,
            course: None,
            trouble: None,
            tab: Tab::Segments,
            width: Width::Second,
            sorts: [0; Tab::ALL.len()],
            selected: 0,
            selected_flow: 0,
            selected_class: String::new(),
        }
    }

    /// The request for what the screen shows.
    pub(super) fn request(&self) -> Request {
        match self.tab {
            Tab::Segments => Request {
                course: self.course_query(),
                flows: None,
            },
            Tab::Flows if self.has_flows() => Request {
                course: None,
                flows: Some(FlowQuery {
                    sort: self.sort().of_flows(),
                    limit: FLOWS_MAX,
                    ..FlowQuery::default()
                }),
            },
            Tab::Flows | Tab::Classes => Request::default(),
        }
    }

    /// The course of the selected segment.
    fn course_query(&self) -> Option<CourseQuery> {
        let segment = self.snapshot.segments.get(self.selected)?;
        Some(CourseQuery {
            ingress: Some(segment.ingress.clone()),
            egress: Some(segment.egress.clone()),
            class: Some(segment.class.clone()),
            width_s: Some(self.width),
            offset: 0,
            limit: 1,
        })
    }

    pub(super) fn take(&mut self, update: Result<Update, ClientError>) {
        let update = match update {
            Ok(update) => update,
            Err(error) => {
                self.trouble = Some(error.to_string());
                return;
            }
        };
        let selected = self.snapshot.segments.get(self.selected);
        let selected = selected.map(Segment::names);
        let mut segments = update.snapshot.segments.iter();
        let index = segments.position(|segment| Some(segment.names()) == selected);
        self.selected = index.unwrap_or(0);
        self.snapshot = update.snapshot;
        self.trouble = None;
        if let (Some(of), Some(course)) = (update.request.course, update.course) {
            self.course = Some((of, course));
        }
        if let Some(page) = update.flows {
            self.keep_flow(&page);
            self.flows = Some(page);
        }
        if !self.has_flows() {
            self.flows = None;
        }
    }

    /// Whether there are any to ask for.
    pub fn has_flows(&self) -> bool {
        let mut wires = self.snapshot.wires.iter();
        self.snapshot.flows.is_some() || wires.any(|wire| wire.flows.is_some())
    }

    /// Keeps the selection on its flow while the flow is on the page; at the head of
    /// the list it stays at the head.
    fn keep_flow(&mut self, page: &FlowPage) {
        if self.selected_flow == 0 {
            return;
        }
        let old = self.flows.as_ref();
        let old = old.and_then(|old| old.flows.get(self.selected_flow));
        let index = old.and_then(|old| page.flows.iter().position(|flow| flow.is_alike(old)));
        let last = page.flows.len().saturating_sub(1);
        self.selected_flow = index.unwrap_or(self.selected_flow).min(last);
    }

    /// The course of the selected segment, once it has come.
    pub(super) fn course(&self) -> Option<&Course> {
        let (query, course) = self.course.as_ref()?;
        (self.course_query().as_ref() == Some(query)).then_some(course)
    }

    pub(super) fn sort(&self) -> Sort {
        let sorts = self.tab.sorts();
        sorts[self.sorts[self.tab as usize] % sorts.len()]
    }

    /// Indices of the segments in the order in which they are shown.
    pub(super) fn order(&self) -> Vec<usize> {
        let sort = match self.tab {
            Tab::Segments => self.sort(),
            _ => Sort::Configuration,
        };
        let segments = &self.snapshot.segments;
        let mut order: Vec<usize> = (0..segments.len()).collect();
        let key = |index: usize| sort.of_segment(&self.snapshot, &segments[index]);
        order.sort_by(|&a, &b| key(b).total_cmp(&key(a)));
        order
    }

    /// The classes in the order in which they are shown.
    pub(super) fn classes(&self) -> Vec<ClassRow> {
        let mut rows = class_rows(&self.snapshot);
        let sort = match self.tab {
            Tab::Classes => self.sort(),
            _ => Sort::Configuration,
        };
        rows.sort_by(|a, b| sort.of_class(b).total_cmp(&sort.of_class(a)));
        rows
    }

    /// Index of the selected class in these.
    pub(super) fn class_index(&self, classes: &[ClassRow]) -> usize {
        let mut classes = classes.iter();
        let index = classes.position(|row| row.class == self.selected_class);
        index.unwrap_or(0)
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> KeyEffect {
        if key.kind == KeyEventKind::Release {
            return KeyEffect::Stay;
        }
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return KeyEffect::Quit;
            }
            KeyCode::Char('q') | KeyCode::Esc => return KeyEffect::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.step(|row| row.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.step(|row| row + 1),
            KeyCode::PageUp => self.step(|row| row.saturating_sub(PAGE)),
            KeyCode::PageDown => self.step(|row| row + PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.step(|_| 0),
            KeyCode::End | KeyCode::Char('G') => self.step(|_| usize::MAX),
            KeyCode::Char('1') => self.tab = Tab::Segments,
            KeyCode::Char('2') => self.tab = Tab::Flows,
            KeyCode::Char('3') => self.tab = Tab::Classes,
            KeyCode::Tab => self.tab = Tab::ALL[(self.tab as usize + 1) % Tab::ALL.len()],
            KeyCode::BackTab => {
                self.tab = Tab::ALL[(self.tab as usize + Tab::ALL.len() - 1) % Tab::ALL.len()];
            }
            KeyCode::Char('s') => {
                let sort = &mut self.sorts[self.tab as usize];
                *sort = (*sort + 1) % self.tab.sorts().len();
                if self.tab == Tab::Flows {
                    self.selected_flow = 0;
                }
            }
            KeyCode::Char('w') => self.width = next(self.width),
            _ => {}
        }
        KeyEffect::Stay
    }

    /// Moves the selection within the order shown.
    fn step(&mut self, to: impl Fn(usize) -> usize) {
        match self.tab {
            Tab::Segments => {
                let order = self.order();
                let row = order.iter().position(|&index| index == self.selected);
                let to = to(row.unwrap_or(0)).min(order.len().saturating_sub(1));
                self.selected = order.get(to).copied().unwrap_or(0);
            }
            Tab::Flows => {
                let flows = self.flows.as_ref().map_or(0, |page| page.flows.len());
                self.selected_flow = to(self.selected_flow).min(flows.saturating_sub(1));
            }
            Tab::Classes => {
                let classes = self.classes();
                let to = to(self.class_index(&classes)).min(classes.len().saturating_sub(1));
                let class = classes.get(to).map(|row| row.class.clone());
                self.selected_class = class.unwrap_or_default();
            }
        }
    }
}
