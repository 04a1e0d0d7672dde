//! What the live table shows, and what the user chose.

use std::sync::Arc;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::classes::{ClassRow, class_rows};
use super::feed::{News, Wish};
use crate::client::ClientError;
use crate::view::packets_per_s;
use records::answers::FlowPage;
use records::history::Course;
use records::snapshot::{FlowOrder, FlowQuery, Segment, SegmentName, Snapshot};

/// Flows that are asked for: some screens of them.
const FLOWS_MAX: usize = 200;

/// Rows that a page key moves by.
const PAGE: usize = 10;

/// What a key press comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Stay,
    Quit,
}

/// What is in the middle of the screen.
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

/// How far the chart reaches back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    Minute,
    TenMinutes,
    Hour,
}

impl Window {
    fn next(self) -> Self {
        match self {
            Self::Minute => Self::TenMinutes,
            Self::TenMinutes => Self::Hour,
            Self::Hour => Self::Minute,
        }
    }

    /// Width of its buckets in seconds.
    pub(super) fn width_s(self) -> u32 {
        match self {
            Self::Minute => 1,
            Self::TenMinutes => 10,
            Self::Hour => 60,
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Minute => "last minute",
            Self::TenMinutes => "last ten minutes",
            Self::Hour => "last hour",
        }
    }
}

/// All that the table shows, and what the user chose.
#[derive(Debug)]
pub(super) struct App {
    pub snapshot: Arc<Snapshot>,
    /// The flows on the screen; `None` before they have come.
    pub flows: Option<FlowPage>,
    /// The course of a segment, by buckets of so many seconds.
    course: Option<((SegmentName, u32), Course)>,
    /// Why this is not the latest.
    pub trouble: Option<String>,
    pub tab: Tab,
    pub window: Window,
    /// Of each tab, place in what it can be ordered by.
    sorts: [usize; Tab::ALL.len()],
    /// Index of a segment in the snapshot.
    pub selected: usize,
    /// Place of a flow on the page.
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
            window: Window::Minute,
            sorts: [0; Tab::ALL.len()],
            selected: 0,
            selected_flow: 0,
            selected_class: String::new(),
        }
    }

    /// What is needed for what is shown.
    pub(super) fn wish(&self) -> Wish {
        let course = || {
            Some((
                name(self.snapshot.segments.get(self.selected)?),
                self.window.width_s(),
            ))
        };
        match self.tab {
            Tab::Segments => Wish {
                course: course(),
                flows: None,
            },
            Tab::Flows if self.snapshot.flows.is_some() => Wish {
                course: None,
                flows: Some(FlowQuery {
                    sort: self.sort().of_flows(),
                    limit: Some(FLOWS_MAX),
                    ..FlowQuery::default()
                }),
            },
            Tab::Flows | Tab::Classes => Wish::default(),
        }
    }

    pub(super) fn take(&mut self, news: Result<News, ClientError>) {
        let news = match news {
            Ok(news) => news,
            Err(error) => {
                self.trouble = Some(error.to_string());
                return;
            }
        };
        let selected = self.snapshot.segments.get(self.selected).map(name);
        let mut segments = news.snapshot.segments.iter();
        let place = segments.position(|segment| Some(name(segment)) == selected);
        self.selected = place.unwrap_or(0);
        self.snapshot = news.snapshot;
        self.trouble = None;
        if let (Some(of), Some(course)) = (news.wish.course, news.course) {
            self.course = Some((of, course));
        }
        if let Some(page) = news.flows {
            self.keep_flow(&page);
            self.flows = Some(page);
        }
        if self.snapshot.flows.is_none() {
            self.flows = None;
        }
    }

    /// Lets the selection stay with its flow, where the flow is still on the page; at the head of
    /// the list it stays there.
    fn keep_flow(&mut self, page: &FlowPage) {
        if self.selected_flow == 0 {
            return;
        }
        let old = self.flows.as_ref();
        let old = old.and_then(|old| old.flows.get(self.selected_flow));
        let place = old.and_then(|old| page.flows.iter().position(|flow| flow.is_alike(old)));
        let last = page.flows.len().saturating_sub(1);
        self.selected_flow = place.unwrap_or(self.selected_flow).min(last);
    }

    /// The course of the selected segment, once it has come.
    pub(super) fn course(&self) -> Option<&Course> {
        let ((segment, width_s), course) = self.course.as_ref()?;
        let selected = name(self.snapshot.segments.get(self.selected)?);
        let is_it = *segment == selected && *width_s == self.window.width_s();
        is_it.then_some(course)
    }

    pub(super) fn sort(&self) -> Sort {
        let sorts = self.tab.sorts();
        let place = self.sorts[self.tab as usize] % sorts.len();
        sorts[place]
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

    /// Place of the selected class in these.
    pub(super) fn class_place(&self, classes: &[ClassRow]) -> usize {
        let mut classes = classes.iter();
        let place = classes.position(|row| row.class == self.selected_class);
        place.unwrap_or(0)
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Answer {
        if key.kind == KeyEventKind::Release {
            return Answer::Stay;
        }
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Answer::Quit;
            }
            KeyCode::Char('q') | KeyCode::Esc => return Answer::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.step(|place| place.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.step(|place| place + 1),
            KeyCode::PageUp => self.step(|place| place.saturating_sub(PAGE)),
            KeyCode::PageDown => self.step(|place| place + PAGE),
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
            KeyCode::Char('w') => self.window = self.window.next(),
            _ => {}
        }
        Answer::Stay
    }

    /// Moves the selection within the order shown.
    fn step(&mut self, to: impl Fn(usize) -> usize) {
        match self.tab {
            Tab::Segments => {
                let order = self.order();
                let place = order.iter().position(|&index| index == self.selected);
                let to = to(place.unwrap_or(0)).min(order.len().saturating_sub(1));
                self.selected = order.get(to).copied().unwrap_or(0);
            }
            Tab::Flows => {
                let flows = self.flows.as_ref().map_or(0, |page| page.flows.len());
                self.selected_flow = to(self.selected_flow).min(flows.saturating_sub(1));
            }
            Tab::Classes => {
                let classes = self.classes();
                let to = to(self.class_place(&classes)).min(classes.len().saturating_sub(1));
                let class = classes.get(to).map(|row| row.class.clone());
                self.selected_class = class.unwrap_or_default();
            }
        }
    }
}

fn name(segment: &Segment) -> SegmentName {
    SegmentName {
        ingress: segment.ingress.clone(),
        egress: segment.egress.clone(),
        class: segment.class.clone(),
    }
}
