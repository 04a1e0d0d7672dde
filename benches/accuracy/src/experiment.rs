//! Experiments, and their common runner.

use std::path::PathBuf;

use anyhow::Result;
use rayon::prelude::*;
use reporting::statistics::mean;
use serde::Serialize;

use crate::report::{Row, Table};
use crate::traffic::Supply;

/// How experiments are run.
#[derive(Debug, Clone, Serialize)]
pub struct Setting {
    /// The packets of a pcap file, through the queue simulator; `None`: generated traffic.
    pub capture: Option<PathBuf>,
    /// Seeds to average over; `None`: as many as the limit asks for.
    pub seeds: Option<u32>,
    /// 1 is the size to which limits apply; smaller values are for a quick look without limits.
    pub scale: f64,
}

impl Setting {
    /// Whether limits apply: generated packets at scale 1.
    pub fn is_judged(&self) -> bool {
        self.capture.is_none() && self.scale >= 1.0
    }

    /// Number of seeds of hashes and losses: as requested, or else `usual`.
    pub fn seeds(&self, usual: u32) -> u32 {
        self.seeds.unwrap_or(usual).max(1)
    }

    /// Number of seeds of traffic: one for a capture, unless more are requested, because its packets do not change.
    pub fn traffic_seeds(&self, usual: u32) -> u32 {
        self.seeds(if self.capture.is_some() { 1 } else { usual })
    }
}

/// One experiment with its name on the command line.
pub struct Experiment {
    /// As on the command line: `lda`, `lds`, `rli`.
    pub name: &'static str,
    /// In words, for the progress bar and the report.
    pub title: &'static str,
    pub plan: Planner,
}

/// Adds the tables and cases of an experiment.
pub type Planner = for<'a> fn(&'a Supply, &mut Plan<'a>);

impl Experiment {
    pub const fn new(name: &'static str, title: &'static str, plan: Planner) -> Self {
        Self { name, title, plan }
    }
}

/// Tables, and the cases that fill them.
#[derive(Default)]
pub struct Plan<'a> {
    /// Tables without rows, in the order of printing.
    pub tables: Vec<Table>,
    /// The cases: the number of seeds, and the function that runs one seed.
    cases: Vec<(u32, Box<Run<'a>>)>,
}

type Run<'a> = dyn Fn(u64, &mut Found) -> Result<()> + Send + Sync + 'a;

impl<'a> Plan<'a> {
    /// Adds a table; its number is the order of adding, from 0.
    pub fn table(&mut self, title: impl Into<String>, about: impl Into<String>) {
        self.tables.push(Table {
            title: title.into(),
            about: about.into(),
            rows: Vec::new(),
        });
    }

    /// Adds a case that is run once for each seed, from 0; its rows are means over seeds.
    pub fn case(
        &mut self,
        seeds: u32,
        run: impl Fn(u64, &mut Found) -> Result<()> + Send + Sync + 'a,
    ) {
        self.cases.push((seeds, Box::new(run)));
    }

    /// Runs of all cases.
    pub fn steps(&self) -> u64 {
        self.cases.iter().map(|(seeds, _)| u64::from(*seeds)).sum()
    }

    /// Runs all cases with all seeds in parallel; `step` is called after each.
    pub fn run(mut self, setting: &Setting, step: &(dyn Fn() + Sync)) -> Result<Vec<Table>> {
        let runs: Vec<(&Run<'_>, u64)> = (self.cases.iter())
            .flat_map(|(seeds, run)| (0..u64::from(*seeds)).map(move |seed| (&**run, seed)))
            .collect();
        let mut found = runs
            .into_par_iter()
            .map(|(run, seed)| {
                let mut found = Found::default();
                run(seed, &mut found)?;
                step();
                Ok(found)
            })
            .collect::<Result<Vec<Found>>>()?
            .into_iter();
        for (seeds, _) in &self.cases {
            let of_case: Vec<Found> = found.by_ref().take(*seeds as usize).collect();
            for (table, row) in mean_rows(&of_case) {
                self.tables[table].rows.push(row.judged(setting));
            }
        }
        Ok(self.tables)
    }
}

/// Results of one run of a case.
#[derive(Default)]
pub struct Found {
    rows: Vec<(usize, Row)>,
}

impl Found {
    /// A figure of ours for the table with this number, without anything to compare it with yet.
    pub fn row(
        &mut self,
        table: usize,
        check: impl Into<String>,
        unit: &'static str,
        ours: f64,
    ) -> &mut Row {
        let (_, row) = self.rows.push_mut((table, Row::new(check, unit, ours)));
        row
    }

    /// The mean of `ours` over seeds, divided by the least mean of `over`.
    pub fn ratio(
        &mut self,
        table: usize,
        check: impl Into<String>,
        ours: f64,
        over: impl Into<Vec<f64>>,
    ) -> &mut Row {
        let row = self.row(table, check, "ratio", ours);
        row.over = over.into();
        row
    }
}

/// The mean of each figure over runs of the same case.
fn mean_rows(runs: &[Found]) -> Vec<(usize, Row)> {
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    let are_alike = runs.iter().all(|run| run.rows.len() == first.rows.len());
    assert!(are_alike, "every run of a case gives the same rows");
    let rows = first.rows.iter().enumerate().map(|(index, (table, row))| {
        let mean_of = |figure: &dyn Fn(&Row) -> Option<f64>| {
            let alike = runs.iter().filter_map(|run| run.rows.get(index));
            mean(alike.filter_map(|(_, row)| figure(row)))
        };
        let mut row = row.clone();
        row.ours = mean_of(&|row| Some(row.ours));
        for (other, own) in row.others.iter_mut().enumerate() {
            own.figure = mean_of(&|row| Some(row.others.get(other)?.figure));
        }
        for (divisor, own) in row.over.iter_mut().enumerate() {
            *own = mean_of(&|row| row.over.get(divisor).copied());
        }
        (*table, row.divided())
    });
    rows.collect()
}

#[cfg(test)]
mod tests;
