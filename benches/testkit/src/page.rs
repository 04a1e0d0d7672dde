//! The page of a switch or a station in a real browser: contents of its tables, and pictures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::browser::{Browser, literal};
use crate::process::until;

/// How long page and API may show different epochs.
const PATIENCE: Duration = Duration::from_secs(40);

/// Widths of windows in pixels, and whether they are dark.
const LOOKS: [(u32, u32, bool); 4] = [
    (400, 800, false),
    (1_600, 900, true),
    (400, 800, true),
    (1_600, 900, false),
];

/// Every cell with a value, by row key and column, or in a list of facts by name.
const CELLS: &str = "Object.fromEntries([...document.querySelectorAll('main [data-f][data-v]')].map((cell) => {
    const row = cell.closest('[data-key]');
    return [(row ? row.dataset.key.replaceAll('\\n', ' ') + ' | ' : '') + cell.dataset.f, [cell.dataset.v, cell.textContent]];
}))";

/// Expected cells: a number with its text, by row key and column.
pub type Expected = BTreeMap<String, (f64, String)>;

/// Cells by name: the underlying value, and the displayed text.
pub type Cells = BTreeMap<String, [String; 2]>;

/// Adds a number, if there is one, with its expected text.
pub fn add(
    expected: &mut Expected,
    name: String,
    number: &Value,
    write: impl FnOnce(f64) -> String,
) {
    if let Some(number) = number.as_f64() {
        expected.insert(name, (number, write(number)));
    }
}

/// A cell: its column, the answer's number, and how that is written.
pub type Cell<'c> = (&'c str, &'c Value, &'c dyn Fn(f64) -> String);

/// Adds the cells of a row.
pub fn cells(expected: &mut Expected, row: &str, cells: &[Cell<'_>]) {
    for (column, number, write) in cells {
        add(expected, format!("{row} | {column}"), number, write);
    }
}

/// The parts of an answer's list.
pub fn list(answer: &Value) -> impl Iterator<Item = &Value> {
    answer.as_array().into_iter().flatten()
}

/// A text in a response; empty if it is not a string.
pub fn text(answer: &Value) -> &str {
    answer.as_str().unwrap_or_default()
}

/// Formats a count from a JSON number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts"
)]
pub fn whole(write: fn(u64) -> String) -> impl Fn(f64) -> String + Copy {
    move |number| write(number as u64)
}

/// The page in a browser.
#[derive(Debug)]
pub struct Page {
    /// The browser, for other commands.
    pub browser: Browser,
    address: String,
    pictures: PathBuf,
}

impl Page {
    /// Opens the page of the server at `address`, `127.0.0.1:9464`. `folder` is for the browser's profile; pictures go to
    /// `pictures`.
    ///
    /// # Errors
    /// As [`Browser::start`].
    pub fn open(address: &str, folder: &Path, pictures: PathBuf) -> Result<Self> {
        let mut page = Self {
            browser: Browser::start(folder)?,
            address: format!("http://{address}/ui"),
            pictures,
        };
        page.browser.look(1_600, 900, false)?;
        page.browser.open(&page.address)?;
        Ok(page)
    }

    /// Opens a view, such as `segments/east/west/all`, and waits until it is drawn.
    ///
    /// # Errors
    /// When it is not.
    pub fn go(&mut self, view: &str) -> Result<()> {
        let there = literal(&format!("#/{view}"));
        self.browser.wait_for("!!document.querySelector('nav a')")?;
        self.browser.value(&format!("location.hash = {there}; 0"))?;
        self.browser.wait_for(&format!(
            "document.querySelector('.view')?.dataset.at === {there} && !!document.querySelector('.view .panel')"
        ))
    }

    /// The epoch of the view's figures.
    ///
    /// # Errors
    /// As [`Browser::value`].
    pub fn epoch(&mut self) -> Result<Option<u64>> {
        let epoch = self
            .browser
            .value("document.querySelector('.view').dataset.epoch ?? ''")?;
        Ok(epoch.as_str().and_then(|epoch| epoch.parse().ok()))
    }

    /// Every cell with a value, by its row's key and its column.
    ///
    /// # Errors
    /// As [`Browser::value`].
    pub fn cells(&mut self) -> Result<Cells> {
        Ok(serde_json::from_value(self.browser.value(CELLS)?)?)
    }

    /// Waits until the page shows exactly the data of a response; `expected` converts the response to cells.
    ///
    /// # Errors
    /// If it never does; the error has the last difference.
    pub fn shows(
        &mut self,
        mut expected: impl FnMut() -> Option<(Option<u64>, Expected)>,
    ) -> Result<()> {
        let mut last = None;
        let complaint = "the page never showed the data of the API";
        let is_shown = until(PATIENCE, complaint, || {
            let before = expected();
            let shown = (self.epoch()?, self.cells()?);
            // The same response before and after: nothing has changed in between.
            last = match (before, expected()) {
                (Some(before), Some(after)) if before == after => difference(&before, &shown),
                _ => Some("the answers differ".to_owned()),
            };
            Ok(last.is_none().then_some(()))
        });
        is_shown.with_context(|| last.unwrap_or_default())
    }

    /// Takes pictures of the view, narrow and wide, light and dark: `NAME-400-dark.png`. Nothing may be wider than the
    /// window, and the page must not complain.
    ///
    /// # Errors
    /// If one of these does not hold.
    pub fn pictures(&mut self, name: &str) -> Result<()> {
        for (width, height, is_dark) in LOOKS {
            self.browser.look(width, height, is_dark)?;
            // Charts get the width of the window when they are next drawn.
            std::thread::sleep(Duration::from_millis(1_300));
            let wide = self
                .browser
                .value("document.documentElement.scrollWidth - innerWidth")?;
            ensure!(
                wide.as_i64() <= Some(0),
                "{name}: {wide} pixels too wide at {width}"
            );
            let look = if is_dark { "dark" } else { "light" };
            self.browser
                .picture(&self.pictures.join(format!("{name}-{width}-{look}.png")))?;
        }
        let complaints = self.browser.complaints()?;
        ensure!(complaints.is_empty(), "{name}: {complaints:?}");
        Ok(())
    }

    /// The text of the first element that matches a selector.
    ///
    /// # Errors
    /// As [`Browser::value`], and without one.
    pub fn text(&mut self, selector: &str) -> Result<String> {
        let selector = literal(selector);
        let text = self
            .browser
            .value(&format!("document.querySelector({selector}).textContent"))?;
        text.as_str().map(str::to_owned).context("a text")
    }
}

/// The first difference between expected and shown cells.
fn difference(
    (epoch, expected): &(Option<u64>, Expected),
    (shown_epoch, shown): &(Option<u64>, Cells),
) -> Option<String> {
    if epoch.is_some() && epoch != shown_epoch {
        return Some(format!("epoch {epoch:?}, shown {shown_epoch:?}"));
    }
    for (name, (value, text)) in expected {
        let Some([number, words]) = shown.get(name) else {
            return Some(format!("{name} is not shown among {:?}", shown.keys()));
        };
        let number_shown: Result<f64, _> = number.parse();
        let is_same = number_shown.is_ok_and(|shown| shown.total_cmp(value).is_eq());
        if !is_same || !words.starts_with(text.as_str()) {
            return Some(format!(
                "{name}: {value} ({text}), shown {number} ({words})"
            ));
        }
    }
    None
}
