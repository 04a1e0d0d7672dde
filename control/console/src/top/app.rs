//! What the live table shows: several switches, of each what the user chose, its tabs and by what each is ordered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::draw;
use super::source::{Request, Update};
use crate::client::ClientError;
use crate::view::packets_per_s;
use records::answers::{ClassTotals, Classes, CourseQuery, FlowOrder, FlowPage, FlowQuery, Width};
use records::history::Course;
use records::snapshot::{FlowAnswer, Port, Segment, Snapshot, Stamped};

/// The switches, at least one.
#[derive(Debug)]
pub(super) struct Fleet {
    apps: Vec<App>,
    /// Index of the one that is shown, and selected in the list.
    current: usize,
    /// Whether the list is shown.
    pub is_listed: bool,
}

impl Fleet {
    pub(super) fn new(apps: Vec<App>) -> Self {
        let is_listed = apps.len() > 1;
        Self {
            apps,
            current: 0,
            is_listed,
        }
    }

    pub(super) fn draw(&self, frame: &mut Frame) {
        draw::draw(frame, &self.apps, self.current, self.is_listed);
    }

    pub(super) fn app(&mut self, index: usize) -> &mut App {
        &mut self.apps[index]
    }

    pub(super) fn current(&self) -> usize {
        self.current
    }

    pub(super) fn shown(&self) -> &App {
        &self.apps[self.current]
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> KeyEffect {
        if key.kind == KeyEventKind::Release {
            return KeyEffect::Stay;
        }
        let last = self.apps.len() - 1;
        let app = &mut self.apps[self.current];
        if app.is_typing || last == 0 {
            return app.press(key);
        }
        match key.code {
            KeyCode::Char('0') => self.is_listed = true,
            KeyCode::Left => self.go(self.current.saturating_sub(1)),
            KeyCode::Right => self.go((self.current + 1).min(last)),
            KeyCode::Up | KeyCode::Char('k') if self.is_listed => {
                self.go(self.current.saturating_sub(1));
            }
            KeyCode::Down | KeyCode::Char('j') if self.is_listed => {
                self.go((self.current + 1).min(last));
            }
            KeyCode::Home | KeyCode::Char('g') if self.is_listed => self.go(0),
            KeyCode::End | KeyCode::Char('G') if self.is_listed => self.go(last),
            KeyCode::Enter if self.is_listed => self.is_listed = false,
            KeyCode::Esc if !self.is_listed && app.is_at_top() => self.is_listed = true,
            code => {
                self.is_listed &= !matches!(code, KeyCode::Char('1'..='5' | '/' | '?'));
                return app.press(key);
            }
        }
        KeyEffect::Stay
    }

    /// Shows another switch, by the same tab.
    fn go(&mut self, index: usize) {
        let App {
            tab, width, filter, ..
        } = self.shown();
        let (tab, width, filter) = (*tab, *width, filter.clone());
        self.current = index;
        let app = self.app(index);
        (app.tab, app.width, app.filter) = (tab, width, filter);
    }
}

/// Flows that are asked for: some screens of them.
const FLOWS_MAX: usize = 200;

/// Rows that a page key moves by.
const PAGE: usize = 10;

/// A switch that has not answered for so long is shown as gone.
const GONE: Duration = Duration::from_secs(3);

/// Effect of a key press on the program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyEffect {
    Stay,
    Quit,
}

/// What the middle of the screen holds.
#[derive(Debug, Default)]
pub(super) enum View {
    /// The table of the tab.
    #[default]
    Table,
    /// All that is known of one flow; the answer is `None` before it has come.
    Flow {
        name: String,
        answer: Option<Box<FlowAnswer>>,
        scroll: u16,
    },
    /// The keys.
    Help,
}

/// All that the table shows of a switch, and what the user chose.
#[derive(Debug)]
pub(super) struct App {
    /// Its address; empty for the switch of this process.
    pub address: String,
    pub snapshot: Arc<Snapshot>,
    /// The flows on the screen; `None` before they have come.
    pub flows: Option<FlowPage>,
    /// The course that was last answered, and its query.
    course: Option<(CourseQuery, Course)>,
    /// Why this is not the latest.
    pub trouble: Option<String>,
    /// When it answered last, or the start.
    answered: Instant,
    pub tab: Tab,
    pub view: View,
    /// Only rows whose names contain this are shown.
    pub filter: String,
    /// Whether keys go to the filter.
    pub is_typing: bool,
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
    /// Name of a port; empty: the first.
    selected_port: String,
}

impl App {
    pub(super) fn new(address: String, snapshot: Arc<Snapshot>) -> Self {
        Self {
            address,
            snapshot,
            flows: None,
            course: None,
            trouble: None,
            answered: Instant::now(),
            tab: Tab::Segments,
            view: View::Table,
            filter: String::new(),
            is_typing: false,
            width: Width::Second,
            sorts: [0; Tab::ALL.len()],
            selected: 0,
            selected_flow: 0,
            selected_class: String::new(),
            selected_port: String::new(),
        }
    }

    /// How long it has not answered, where that is too long or there was an error.
    pub(super) fn silent_for(&self) -> Option<Duration> {
        let silent = self.answered.elapsed();
        (self.trouble.is_some() || silent > GONE).then_some(silent)
    }

    /// The request for what the screen shows.
    pub(super) fn request(&self) -> Request {
        if let View::Flow { name, .. } = &self.view {
            return Request {
                flow: name.parse().ok(),
                ..Request::default()
            };
        }
        match self.tab {
            Tab::Segments => Request {
                course: self.course_query(),
                ..Request::default()
            },
            Tab::Flows if self.has_flows() => Request {
                flows: Some(FlowQuery {
                    sort: self.sort().of_flows(),
                    limit: FLOWS_MAX,
                    contains: (!self.filter.is_empty()).then(|| self.filter.clone()),
                    ..FlowQuery::default()
                }),
                ..Request::default()
            },
            _ => Request::default(),
        }
    }

    /// The course of the selected segment.
    fn course_query(&self) -> Option<CourseQuery> {
        let segment = self.segment()?;
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
        self.answered = Instant::now();
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
        if let (View::Flow { name, answer, .. }, Some(flow)) = (&mut self.view, update.flow)
            && *name == flow.flow
        {
            *answer = Some(Box::new(flow));
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

    /// The selected segment; the first that is shown where the filter hides it.
    pub(super) fn segment(&self) -> Option<&Segment> {
        let order = self.order();
        let shown = order.iter().find(|&&index| index == self.selected);
        let index = shown.or_else(|| order.first())?;
        self.snapshot.segments.get(*index)
    }

    pub(super) fn sort(&self) -> Sort {
        let sorts = self.tab.sorts();
        sorts[self.sorts[self.tab as usize] % sorts.len()]
    }

    pub(super) fn is_shown(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Indices of the segments in the order in which they are shown.
    pub(super) fn order(&self) -> Vec<usize> {
        let sort = match self.tab {
            Tab::Segments => self.sort(),
            _ => Sort::Configuration,
        };
        let segments = &self.snapshot.segments;
        let is_shown =
            |index: &usize| self.tab != Tab::Segments || self.is_shown(&segments[*index].title());
        let mut order: Vec<usize> = (0..segments.len()).filter(is_shown).collect();
        let key = |index: usize| sort.of_segment(&self.snapshot, &segments[index]);
        order.sort_by(|&a, &b| key(b).total_cmp(&key(a)));
        order
    }

    /// The classes in the order in which they are shown.
    pub(super) fn classes(&self) -> Vec<ClassTotals> {
        let mut rows = Classes::from(&*self.snapshot).classes;
        rows.retain(|row| row.segments > 0 && self.is_shown(&row.class));
        let sort = self.sort();
        let by = |row: &ClassTotals| sort.of_class(&self.snapshot, row);
        rows.sort_by(|a, b| by(b).total_cmp(&by(a)));
        rows
    }

    /// Index of the selected class in these.
    pub(super) fn class_index(&self, classes: &[ClassTotals]) -> usize {
        let mut classes = classes.iter();
        let index = classes.position(|row| row.class == self.selected_class);
        index.unwrap_or(0)
    }

    /// The ports in the order in which they are shown.
    pub(super) fn ports(&self) -> Vec<&Port> {
        let ports = self.snapshot.ports.iter();
        let mut ports: Vec<&Port> = ports.filter(|port| self.is_shown(&port.name)).collect();
        let sort = self.sort();
        ports.sort_by(|a, b| sort.of_port(b).total_cmp(&sort.of_port(a)));
        ports
    }

    /// Index of the selected port in these.
    pub(super) fn port_index(&self, ports: &[&Port]) -> usize {
        let mut ports = ports.iter();
        let index = ports.position(|port| port.name == self.selected_port);
        index.unwrap_or(0)
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> KeyEffect {
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return KeyEffect::Quit;
            }
            code if self.is_typing => self.type_filter(code),
            KeyCode::Char('q') => return KeyEffect::Quit,
            KeyCode::Esc => return self.leave(),
            KeyCode::Up | KeyCode::Char('k') => self.step(|row| row.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.step(|row| row + 1),
            KeyCode::PageUp => self.step(|row| row.saturating_sub(PAGE)),
            KeyCode::PageDown => self.step(|row| row + PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.step(|_| 0),
            KeyCode::End | KeyCode::Char('G') => self.step(|_| usize::MAX),
            KeyCode::Char(digit @ '1'..='5') => {
                self.show(Tab::ALL[usize::from(digit as u8 - b'1') % Tab::ALL.len()]);
            }
            KeyCode::Tab => self.show(Tab::ALL[(self.tab as usize + 1) % Tab::ALL.len()]),
            KeyCode::BackTab => {
                let last = Tab::ALL.len() - 1;
                self.show(Tab::ALL[(self.tab as usize + last) % Tab::ALL.len()]);
            }
            KeyCode::Enter if self.tab == Tab::Flows => self.open_flow(),
            KeyCode::Char('s') => {
                let sort = &mut self.sorts[self.tab as usize];
                *sort = (*sort + 1) % self.tab.sorts().len();
                if self.tab == Tab::Flows {
                    self.selected_flow = 0;
                }
            }
            KeyCode::Char('w') => self.width = next(self.width),
            KeyCode::Char('/') => {
                self.view = View::Table;
                self.is_typing = true;
            }
            KeyCode::Char('?') => self.view = View::Help,
            _ => {}
        }
        KeyEffect::Stay
    }

    fn show(&mut self, tab: Tab) {
        self.tab = tab;
        self.view = View::Table;
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.selected_flow = 0;
    }

    /// Whether Escape has nothing left to leave.
    pub(super) fn is_at_top(&self) -> bool {
        self.is_table() && self.filter.is_empty()
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.view, View::Table)
    }

    /// Back to the table, then without the filter, then out.
    fn leave(&mut self) -> KeyEffect {
        if self.is_at_top() {
            return KeyEffect::Quit;
        }
        if self.is_table() {
            self.filter.clear();
        }
        self.view = View::Table;
        KeyEffect::Stay
    }

    fn open_flow(&mut self) {
        let page = self.flows.as_ref();
        if let Some(flow) = page.and_then(|page| page.flows.get(self.selected_flow)) {
            self.view = View::Flow {
                name: flow.flow.clone(),
                answer: None,
                scroll: 0,
            };
        }
    }

    /// Moves the selection within the order shown, or the text of a flow.
    fn step(&mut self, to: impl Fn(usize) -> usize) {
        match &mut self.view {
            View::Table => {}
            View::Help => return,
            View::Flow { scroll, .. } => {
                *scroll = u16::try_from(to(usize::from(*scroll))).unwrap_or(0);
                return;
            }
        }
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
            Tab::Ports => {
                let ports = self.ports();
                let to = to(self.port_index(&ports)).min(ports.len().saturating_sub(1));
                let port = ports.get(to).map(|port| port.name.clone());
                self.selected_port = port.unwrap_or_default();
            }
            Tab::Wires => {}
        }
    }
}

/// The table in the middle of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Segments,
    Flows,
    Classes,
    Ports,
    Wires,
}

impl Tab {
    pub(super) const ALL: [Self; 5] = [
        Self::Segments,
        Self::Flows,
        Self::Classes,
        Self::Ports,
        Self::Wires,
    ];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Segments => "segments",
            Self::Flows => "flows",
            Self::Classes => "classes",
            Self::Ports => "ports",
            Self::Wires => "wires",
        }
    }

    /// By what it can be ordered; the first is the default.
    pub(super) fn sorts(self) -> &'static [Sort] {
        match self {
            Self::Segments | Self::Classes => &[
                Sort::Configuration,
                Sort::Packets,
                Sort::Lost,
                Sort::Mean,
                Sort::Stddev,
                Sort::P99,
                Sort::P999,
                Sort::Max,
            ],
            Self::Ports => &[Sort::Configuration, Sort::Packets, Sort::Lost],
            Self::Wires => &[Sort::Configuration],
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
    P999,
    Max,
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
            Self::P999 => "by p99.9",
            Self::Max => "by maximum",
        }
    }

    pub(super) fn of_segment(self, snapshot: &Snapshot, segment: &Segment) -> f64 {
        match self {
            Self::Packets => packets_per_s(snapshot, segment),
            Self::Lost => segment.total.counts.dropped_packets as f64,
            _ => self.of_delays(snapshot.fresh(segment).and_then(|last| last.stamped)),
        }
    }

    pub(super) fn of_class(self, snapshot: &Snapshot, class: &ClassTotals) -> f64 {
        match self {
            Self::Packets => class_packets_per_s(snapshot, class),
            Self::Lost => class.counts.dropped_packets as f64,
            _ => self.of_delays(class.last.map(|last| last.stamped)),
        }
    }

    fn of_delays(self, stamped: Option<Stamped>) -> f64 {
        let of: fn(Stamped) -> f64 = match self {
            Self::Configuration | Self::Packets | Self::Lost => return 0.0,
            Self::Mean => |stamped| stamped.mean_ns,
            Self::Stddev => |stamped| stamped.stddev_ns,
            Self::P99 => |stamped| stamped.p99_ns,
            Self::P999 => |stamped| stamped.p999_ns,
            Self::Max => |stamped| stamped.max_ns,
        };
        stamped.map_or(-1.0, of)
    }

    pub(super) fn of_port(self, port: &Port) -> f64 {
        match self {
            Self::Packets => port.rx_pps + port.tx_pps,
            Self::Lost => port.dropped_packets() as f64,
            _ => 0.0,
        }
    }

    pub(super) fn of_flows(self) -> FlowOrder {
        match self {
            Self::Lost => FlowOrder::Lost,
            Self::Mean => FlowOrder::Mean,
            Self::Stddev => FlowOrder::Stddev,
            _ => FlowOrder::Packets,
        }
    }
}

/// Packets of a class in its last epoch, a second.
pub(super) fn class_packets_per_s(snapshot: &Snapshot, class: &ClassTotals) -> f64 {
    let packets = class.last.map_or(0, |last| last.packets);
    packets as f64 * 1e3 / f64::from(snapshot.interval_ms)
}

/// The next longer span of the chart, and after the longest the shortest.
pub(super) fn next(width: Width) -> Width {
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
