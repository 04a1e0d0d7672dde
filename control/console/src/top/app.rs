//! What the live table shows: several switches, of each what the user chose, its tabs and by what each is ordered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::draw;
use super::source::{Request, Update};
use crate::client::ClientError;
use crate::view::packets_per_s;
use contract::labelled_enum;
use records::answers::{ClassTotals, Classes, CourseQuery, FlowOrder, FlowPage, FlowQuery, Width};
use records::history::Course;
use records::snapshot::{FlowAnswer, Port, Segment, Snapshot, Stamped};

/// The switches, at least one.
#[derive(Debug)]
pub(super) struct Fleet {
    pub apps: Vec<App>,
    /// Index of the one that is shown, and selected in the list.
    pub current: usize,
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

    pub(super) fn shown(&self) -> &App {
        &self.apps[self.current]
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> KeyEffect {
        if key.kind == KeyEventKind::Release {
            return KeyEffect::Stay;
        }
        let last = self.apps.len() - 1;
        let (before, after) = (self.current.saturating_sub(1), (self.current + 1).min(last));
        let app = &mut self.apps[self.current];
        if app.is_typing || last == 0 {
            return app.press(key);
        }
        match key.code {
            KeyCode::Char('0') => self.is_listed = true,
            KeyCode::Left => self.go(before),
            KeyCode::Right => self.go(after),
            KeyCode::Up | KeyCode::Char('k') if self.is_listed => self.go(before),
            KeyCode::Down | KeyCode::Char('j') if self.is_listed => self.go(after),
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
        let shown = self.shown();
        let (tab, width, filter) = (shown.tab, shown.width, shown.filter.clone());
        self.current = index;
        let app = &mut self.apps[index];
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
    /// All that is known of one flow.
    Flow(OpenFlow),
    /// The keys.
    Help,
}

/// A flow that is shown in full.
#[derive(Debug)]
pub(super) struct OpenFlow {
    pub name: String,
    /// `None` before it has come.
    pub answer: Option<Box<FlowAnswer>>,
    pub scroll: u16,
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
    /// For each tab with names, the selected class or port; if empty, the first.
    selected_names: [String; Tab::ALL.len()],
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
            selected_names: Default::default(),
        }
    }

    /// How long it has not answered, where that is too long or there was an error.
    pub(super) fn silent_for(&self) -> Option<Duration> {
        let silent = self.answered.elapsed();
        (self.trouble.is_some() || silent > GONE).then_some(silent)
    }

    /// The request for what the screen shows.
    pub(super) fn request(&self) -> Request {
        let mut request = Request::default();
        match (&self.view, self.tab) {
            (View::Flow(flow), _) => request.flow = flow.name.parse().ok(),
            (_, Tab::Segments) => request.course = self.course_query(),
            (_, Tab::Flows) if self.has_flows() => {
                request.flows = Some(FlowQuery {
                    sort: self.sort().of_flows(),
                    limit: FLOWS_MAX,
                    contains: (!self.filter.is_empty()).then(|| self.filter.clone()),
                    ..FlowQuery::default()
                });
            }
            _ => {}
        }
        request
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
        if let (View::Flow(open), Some(flow)) = (&mut self.view, update.flow)
            && open.name == flow.flow
        {
            open.answer = Some(Box::new(flow));
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

    /// Index of the tab's selected class or port among these names.
    pub(super) fn selected_in<'n>(&self, mut names: impl Iterator<Item = &'n String>) -> usize {
        let selected = &self.selected_names[self.tab as usize];
        names.position(|name| name == selected).unwrap_or(0)
    }

    /// The ports in the order in which they are shown.
    pub(super) fn ports(&self) -> Vec<&Port> {
        let ports = self.snapshot.ports.iter();
        let mut ports: Vec<&Port> = ports.filter(|port| self.is_shown(&port.name)).collect();
        let sort = self.sort();
        ports.sort_by(|a, b| sort.of_port(b).total_cmp(&sort.of_port(a)));
        ports
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
            KeyCode::Char('w') => {
                self.width = Width::ALL[(self.width as usize + 1) % Width::ALL.len()];
            }
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
            self.view = View::Flow(OpenFlow {
                name: flow.flow.clone(),
                answer: None,
                scroll: 0,
            });
        }
    }

    /// Moves the selection within the order shown, or the text of a flow.
    fn step(&mut self, to: impl Fn(usize) -> usize) {
        match &mut self.view {
            View::Table => {}
            View::Help => return,
            View::Flow(OpenFlow { scroll, .. }) => {
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
            Tab::Classes | Tab::Ports => {
                let names: Vec<String> = if self.tab == Tab::Classes {
                    self.classes().into_iter().map(|row| row.class).collect()
                } else {
                    self.ports().iter().map(|port| port.name.clone()).collect()
                };
                let to = to(self.selected_in(names.iter())).min(names.len().saturating_sub(1));
                let name = names.into_iter().nth(to).unwrap_or_default();
                self.selected_names[self.tab as usize] = name;
            }
            Tab::Wires => {}
        }
    }
}

labelled_enum! {
    /// The table in the middle of the screen.
    pub(super) enum Tab {
        Segments = "segments",
        Flows = "flows",
        Classes = "classes",
        Ports = "ports",
        Wires = "wires",
    }
}

impl Tab {
    /// By what it can be ordered; the first is the default.
    pub(super) fn sorts(self) -> &'static [Sort] {
        match self {
            Self::Segments | Self::Classes => &Sort::ALL,
            Self::Ports => &[Sort::Configuration, Sort::Packets, Sort::Lost],
            Self::Wires => &[Sort::Configuration],
            Self::Flows => &[Sort::Packets, Sort::Lost, Sort::Mean, Sort::Stddev],
        }
    }
}

labelled_enum! {
    /// By what rows are ordered, greatest first.
    pub(super) enum Sort {
        Configuration = "as configured",
        Packets = "by packets/s",
        Lost = "by lost packets",
        Mean = "by mean",
        Stddev = "by stddev",
        P99 = "by p99",
        P999 = "by p99.9",
        Max = "by maximum",
    }
}

impl Sort {
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

/// The span of the chart with buckets of this width, and the labels of its axis.
pub(super) fn span(width: Width) -> (&'static str, [&'static str; 3]) {
    match width {
        Width::Second => ("last minute", ["-60 s", "-30 s", "now"]),
        Width::TenSeconds => ("last ten minutes", ["-10 min", "-5 min", "now"]),
        Width::Minute => ("last hour", ["-60 min", "-30 min", "now"]),
    }
}
