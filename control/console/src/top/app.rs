//! State of the live table for one switch: data, and the user's choices.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::choice::{Chart, Sort, Tab};
use super::drops::PortDrops;
use super::fleet::{KeyEffect, is_control_c};
use super::memory::{Memory, Subject};
use super::source::{Request, Update};
use crate::client::ClientError;
use records::answers::{ClassTotals, Classes, CourseQuery, FlowPage, FlowQuery, Width};
use records::history::Course;
use records::snapshot::{Flow, FlowAnswer, Port, Segment, Snapshot, WireSegment};

/// Number of flows that are requested: a few screens.
const FLOWS_MAX: usize = 200;

/// Number of rows by which a page key moves.
const PAGE: usize = 10;

/// Time without an answer after which a switch is shown as gone.
const GONE: Duration = Duration::from_secs(3);

/// Content of the middle of the screen.
#[derive(Debug, Default)]
pub(super) enum View {
    /// The table of the tab.
    #[default]
    Table,
    /// All figures of one flow.
    Flow(OpenFlow),
    /// The keys.
    Help,
}

/// A flow that is shown in full.
#[derive(Debug)]
pub(super) struct OpenFlow {
    pub name: String,
    /// `None` before it has arrived.
    pub answer: Option<Box<FlowAnswer>>,
    pub scroll: u16,
}

/// When the user paused the table, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paused(u64);

impl Paused {
    pub(super) fn now() -> Self {
        let now = SystemTime::UNIX_EPOCH.elapsed();
        Self(now.map_or(0, |since| since.as_secs()))
    }

    /// `14:03:12 UTC`, as in the log.
    pub(super) fn clock(self) -> String {
        let (hours, minutes, seconds) = (self.0 / 3_600 % 24, self.0 / 60 % 60, self.0 % 60);
        format!("{hours:02}:{minutes:02}:{seconds:02} UTC")
    }
}

/// The user's choices in one tab.
#[derive(Debug, Default)]
struct OfTab {
    /// Index of the order.
    sort: usize,
    /// Whether the least is first.
    is_reversed: bool,
    /// Name of the selected class, port or segment on the wire; if there is none, the first is selected.
    selected: String,
    /// The first row on the screen.
    first_row: usize,
}

/// The table's data of a switch, and the user's choices.
#[derive(Debug)]
pub(super) struct App {
    /// Its address; empty for the switch of this process.
    pub address: String,
    pub snapshot: Arc<Snapshot>,
    /// The flows on the screen; `None` before they have arrived.
    pub flows: Option<FlowPage>,
    /// The query that they answer.
    flows_query: Option<FlowQuery>,
    /// The last history received, and its query.
    course: Option<(CourseQuery, Course)>,
    pub memory: Memory,
    /// Why the data are not the latest.
    pub trouble: Option<String>,
    /// When it answered last, or the start.
    answered: Instant,
    /// If paused, nothing on the screen is replaced; missing data are still fetched.
    pub paused: Option<Paused>,
    pub tab: Tab,
    pub view: View,
    /// Text that names of shown rows must contain.
    pub filter: String,
    /// Whether keys go to the filter.
    pub is_typing: bool,
    /// Width of the chart's buckets.
    pub width: Width,
    /// The chosen chart, which some tabs do not have.
    pub chosen: Chart,
    tabs: [OfTab; Tab::ALL.len()],
    /// Index of a segment in the snapshot.
    pub selected: usize,
    /// Index of a flow on the page.
    pub selected_flow: usize,
}

impl App {
    pub(super) fn new(address: String, snapshot: Arc<Snapshot>) -> Self {
        let mut memory = Memory::default();
        memory.add(&snapshot, None);
        Self {
            address,
            snapshot,
            flows: None,
            flows_query: None,
            course: None,
            memory,
            trouble: None,
            answered: Instant::now(),
            paused: None,
            tab: Tab::Segments,
            view: View::Table,
            filter: String::new(),
            is_typing: false,
            width: Width::Second,
            chosen: Chart::Delay,
            tabs: Default::default(),
            selected: 0,
            selected_flow: 0,
        }
    }

    /// Whether this is the switch of this process, and forwards packets of others: it ends with the table.
    pub(super) fn is_forwarding_here(&self) -> bool {
        let config = self.snapshot.config.as_ref();
        config.is_some_and(|config| config.has_devices())
    }

    /// How long it has not answered, if that is too long or there was an error.
    pub(super) fn silent_for(&self) -> Option<Duration> {
        let silent = self.answered.elapsed();
        (self.trouble.is_some() || silent > GONE).then_some(silent)
    }

    /// The request for the data on the screen.
    pub(super) fn request(&self) -> Request {
        let mut request = Request::default();
        match (&self.view, self.tab) {
            (View::Flow(flow), _) => request.flow = flow.name.parse().ok(),
            (_, Tab::Segments) => request.course = self.course_query(),
            (_, Tab::Flows) if self.has_flows() => {
                request.flows = Some(FlowQuery {
                    sort: self.sort().of_flows(),
                    ascending: self.is_reversed(),
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
        self.trouble = None;
        self.answered = Instant::now();
        let is_paused = self.paused.is_some();
        if !is_paused {
            self.show_snapshot(update.snapshot);
            self.memory.add(&self.snapshot, update.flows.as_ref());
        }
        if let (Some(query), Some(course)) = (update.request.course, update.course) {
            let held = self.course.as_ref().map(|(query, _)| query);
            if !is_paused || held != Some(&query) {
                self.course = Some((query, course));
            }
        }
        if let (Some(query), Some(page)) = (update.request.flows, update.flows)
            && (!is_paused || self.flows_query.as_ref() != Some(&query))
        {
            self.keep_flow(&page);
            (self.flows, self.flows_query) = (Some(page), Some(query));
        }
        if !self.has_flows() {
            (self.flows, self.flows_query) = (None, None);
        }
        if let (View::Flow(open), Some(flow)) = (&mut self.view, update.flow)
            && open.name == flow.flow
            && (!is_paused || open.answer.is_none())
        {
            open.answer = Some(Box::new(flow));
        }
    }

    /// Keeps the selection on its segment.
    fn show_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        let selected = self.snapshot.segments.get(self.selected);
        let selected = selected.map(Segment::names);
        let mut segments = snapshot.segments.iter();
        let index = segments.position(|segment| Some(segment.names()) == selected);
        self.selected = index.unwrap_or(0);
        self.snapshot = snapshot;
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

    /// The user's choices in the current tab.
    fn of_tab(&self) -> &OfTab {
        &self.tabs[self.tab as usize]
    }

    fn of_tab_mut(&mut self) -> &mut OfTab {
        &mut self.tabs[self.tab as usize]
    }

    pub(super) fn sort(&self) -> Sort {
        let sorts = self.tab.sorts();
        sorts[self.of_tab().sort % sorts.len()]
    }

    /// Whether the least is first.
    pub(super) fn is_reversed(&self) -> bool {
        self.of_tab().is_reversed
    }

    pub(super) fn first_row(&self) -> usize {
        self.of_tab().first_row
    }

    pub(super) fn keep_first_row(&mut self, row: usize) {
        self.of_tab_mut().first_row = row;
    }

    /// The chart that is shown.
    pub(super) fn chart(&self) -> Chart {
        let charts = self.tab.charts();
        let chosen = charts.iter().find(|chart| **chart == self.chosen);
        *chosen.unwrap_or(&charts[0])
    }

    pub(super) fn is_shown(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Puts rows into the chosen order. Rows without the figure come last.
    fn arrange<T>(&self, rows: &mut [T], figure: impl Fn(&T) -> Option<f64>) {
        let is_reversed = self.is_reversed();
        if self.sort() == Sort::Configuration {
            if is_reversed {
                rows.reverse();
            }
            return;
        }
        let sign = if is_reversed { -1.0 } else { 1.0 };
        let rank = |row: &T| figure(row).map_or(f64::NEG_INFINITY, |figure| sign * figure);
        rows.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    }

    /// Indices of the segments in the order in which they are shown.
    pub(super) fn order(&self) -> Vec<usize> {
        let segments = &self.snapshot.segments;
        if self.tab != Tab::Segments {
            return (0..segments.len()).collect();
        }
        let is_shown = |index: &usize| self.is_shown(&segments[*index].title());
        let mut order: Vec<usize> = (0..segments.len()).filter(is_shown).collect();
        let figure = |index: &usize| self.sort().of_segment(&self.snapshot, &segments[*index]);
        self.arrange(&mut order, figure);
        order
    }

    /// The classes in the order in which they are shown.
    pub(super) fn classes(&self) -> Vec<ClassTotals> {
        let mut rows = Classes::from(&*self.snapshot).classes;
        rows.retain(|row| row.segments > 0 && self.is_shown(&row.class));
        self.arrange(&mut rows, |row| self.sort().of_class(&self.snapshot, row));
        rows
    }

    /// The ports in the order in which they are shown.
    pub(super) fn ports(&self) -> Vec<&Port> {
        let ports = self.snapshot.ports.iter();
        let mut ports: Vec<&Port> = ports.filter(|port| self.is_shown(&port.name)).collect();
        self.arrange(&mut ports, |port| match self.sort() {
            Sort::Lost => self.drops(port).map(|drops| drops.per_s()),
            _ => Some(port.rx_pps + port.tx_pps),
        });
        ports
    }

    /// Drops of a port in the last second; `None` in the first second.
    pub(super) fn drops(&self, port: &Port) -> Option<PortDrops> {
        let step = self.memory.last_second(&Subject::Port(port.name.clone()))?;
        Some(PortDrops::of(port, &step))
    }

    /// Both directions of every segment on the wire.
    pub(super) fn wire_segments(&self) -> Vec<&WireSegment> {
        let wires = self.snapshot.wires.iter();
        let wires = wires.filter(|wire| self.is_shown(&wire.port));
        let mut segments: Vec<_> = wires.flat_map(|wire| &wire.segments).collect();
        self.arrange(&mut segments, |_| None);
        segments
    }

    /// Names of the rows of the tab; none of segments and flows, which are selected by their indices.
    fn names(&self) -> Vec<String> {
        match self.tab {
            Tab::Segments | Tab::Flows => Vec::new(),
            Tab::Classes => self.classes().into_iter().map(|row| row.class).collect(),
            Tab::Ports => self.ports().iter().map(|port| port.name.clone()).collect(),
            Tab::Wires => {
                let segments = self.wire_segments().into_iter();
                segments.map(WireSegment::title).collect()
            }
        }
    }

    /// The selected row.
    pub(super) fn row(&self) -> usize {
        let row = match self.tab {
            Tab::Segments => self
                .order()
                .iter()
                .position(|&index| index == self.selected),
            Tab::Flows => Some(self.selected_flow),
            _ => self
                .names()
                .iter()
                .position(|name| *name == self.of_tab().selected),
        };
        row.unwrap_or(0)
    }

    /// Selects a row, or the last one.
    pub(super) fn select_row(&mut self, row: usize) {
        let of = |rows: usize| row.min(rows.saturating_sub(1));
        match self.tab {
            Tab::Segments => {
                let order = self.order();
                self.selected = order.get(of(order.len())).copied().unwrap_or(0);
            }
            Tab::Flows => {
                let flows = self.flows.as_ref().map_or(0, |page| page.flows.len());
                self.selected_flow = of(flows);
            }
            _ => {
                let mut names = self.names();
                let row = of(names.len());
                self.of_tab_mut().selected = match names.get_mut(row) {
                    Some(name) => std::mem::take(name),
                    None => String::new(),
                };
            }
        }
    }

    /// The selected flow.
    pub(super) fn flow(&self) -> Option<&Flow> {
        self.flows.as_ref()?.flows.get(self.selected_flow)
    }

    /// The selected subject, if the table itself stores its history.
    pub(super) fn subject(&self) -> Option<Subject> {
        let name = || self.names().into_iter().nth(self.row());
        match self.tab {
            Tab::Segments => None,
            Tab::Flows => self.flow().map(Subject::flow),
            Tab::Classes => name().map(Subject::Class),
            Tab::Ports => name().map(Subject::Port),
            Tab::Wires => name().map(Subject::Wire),
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> KeyEffect {
        match key.code {
            _ if is_control_c(key) => return KeyEffect::Quit,
            code if self.is_typing => self.type_filter(code),
            KeyCode::Char('q') => return KeyEffect::Quit,
            KeyCode::Esc => self.leave(),
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
                let sorts = self.tab.sorts().len();
                let of_tab = self.of_tab_mut();
                (of_tab.sort, of_tab.is_reversed) = ((of_tab.sort + 1) % sorts, false);
                self.show_first_flow();
            }
            KeyCode::Char('r') => {
                let of_tab = self.of_tab_mut();
                of_tab.is_reversed = !of_tab.is_reversed;
                self.show_first_flow();
            }
            KeyCode::Char('c') => {
                let (shown, charts) = (self.chart(), self.tab.charts());
                let next = charts.iter().position(|chart| *chart == shown);
                self.chosen = charts[next.map_or(0, |shown| shown + 1) % charts.len()];
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

    /// Back to the table, then without the filter; no further, because it is pressed in haste.
    fn leave(&mut self) {
        if self.is_table() {
            self.filter.clear();
        }
        self.view = View::Table;
    }

    /// Another order begins with another flow.
    fn show_first_flow(&mut self) {
        if self.tab == Tab::Flows {
            self.selected_flow = 0;
        }
    }

    fn open_flow(&mut self) {
        if let Some(flow) = self.flow() {
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
            View::Table => self.select_row(to(self.row())),
            View::Help => {}
            View::Flow(OpenFlow { scroll, .. }) => {
                *scroll = u16::try_from(to(usize::from(*scroll))).unwrap_or(u16::MAX);
            }
        }
    }
}
