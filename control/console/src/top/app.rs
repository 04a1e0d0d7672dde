//! What the live table shows of one switch, and what the user chose.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::feed::{Request, Update};
use super::tab::{Sort, Tab, next};
use crate::client::ClientError;
use records::answers::{ClassTotals, Classes, CourseQuery, FlowPage, FlowQuery, Width};
use records::history::Course;
use records::snapshot::{FlowAnswer, Port, Segment, Snapshot};

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
