//! Plans an LDA, and an LDS, by the models in [`measure::sizing`].

use clap::Args;
use measure::sizing::{
    FlowSizes, LdaDemand, LdaForecast, LdaPlan, LdsDemand, LdsPlan, SizingError,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Correctable, Json, print, print_json};
use contract::config::{Config, ConfigError, LdaBank};
use contract::units::{bytes, counted, rate};

/// Fewest rows of a plan. The switch estimates the deviation, and from it the bounds, from usable cells; this number of
/// rows has about fifty.
const ROWS_MIN: u64 = 128;

/// Decimals of a sampling probability; more would suggest more precision than the model has.
const PROBABILITY_DECIMALS: f64 = 1e6;

/// `vernier size`.
#[derive(Debug, Args)]
#[command(after_help = "\
Shares and errors are numbers such as 0.01, or percentages such as 1%.
The plan is by formula: for an LDA exact in the mean, for an LDS a model of how flows collide, with
flow sizes after Pareto. Joint decoding, which the switch does, errs less than the LDS figures here.")]
pub struct Size {
    /// Packets a second: of the segment for the LDA, of the egress port for the LDS
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    packets_per_second: f64,
    /// Flows that are active in an epoch; without it, no LDS is planned
    #[arg(long, value_name = "NUMBER")]
    flows: Option<u64>,
    /// Usual share of packets lost
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    loss: f64,
    /// Greatest share of packets lost: more than --loss gives the LDA a second bank
    #[arg(long, value_name = "SHARE", value_parser = share)]
    worst_loss: Option<f64>,
    /// Allowed relative error of the segment's mean delay, on average
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = share)]
    error: f64,
    /// Allowed relative error of a flow's mean delay
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = share)]
    flow_error: f64,
    /// Share of flows that may have a greater error
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    miss: f64,
    /// Packets in an epoch of the smallest flow with that error
    #[arg(long, value_name = "NUMBER", default_value = "1000", value_parser = number)]
    flow_packets: f64,
    /// Length of an epoch in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    interval_ms: u32,
    /// Standard deviation of a packet's delay over the mean: about 1 in a loaded queue
    #[arg(long, value_name = "RATIO", default_value = "1", value_parser = number)]
    deviation: f64,
    /// The same within one flow
    #[arg(long, value_name = "RATIO", default_value = "0.5", value_parser = number)]
    flow_deviation: f64,
    /// Mean difference of the flows' mean delays, over the mean delay
    #[arg(long, value_name = "RATIO", default_value = "0.5", value_parser = number)]
    flow_spread: f64,
    /// Shape of the Pareto distribution of flow sizes: the smaller, the heavier the tail
    #[arg(long, value_name = "NUMBER", default_value = "1.1", value_parser = number)]
    flow_shape: f64,
    #[command(flatten)]
    form: Json,
}

/// A plan, as it is printed.
#[derive(Debug, Serialize)]
struct Plan {
    lda: LdaAnswer,
    lds: Option<LdsAnswer>,
    /// To be merged into a configuration.
    configuration: Value,
}

#[derive(Debug, Serialize)]
struct LdaAnswer {
    banks: Vec<LdaBank>,
    memory_bytes: u64,
    wire_bytes: u64,
    usual: Forecast,
    /// The second bank, if requested.
    worst: Option<Forecast>,
}

#[derive(Debug, Serialize)]
struct Forecast {
    lost_packets: f64,
    effective_samples: f64,
    mean_error_ratio: f64,
    bound98_ratio: f64,
}

#[derive(Debug, Serialize)]
struct LdsAnswer {
    cells: u64,
    rows: Vec<f64>,
    columns: u32,
    virtual_cells: u32,
    memory_bytes: u64,
    wire_bytes: u64,
    flow_packets: f64,
    error_ratio: f64,
    miss_share: f64,
}

/// `vernier size`: a plan for people, or for programs.
pub fn run(size: &Size) -> anyhow::Result<u8> {
    let plan = Plan::of(size)?;
    if size.form.json {
        print_json(&plan)
    } else {
        print(&plan.text(size)?)
    }
}

impl Plan {
    fn of(size: &Size) -> Result<Self, Correctable> {
        let lda = lda(size).map_err(|error| Correctable(format!("LDA: {error}")))?;
        let lds = size.flows.map(|flows| lds(size, flows)).transpose();
        let lds = lds.map_err(|error| Correctable(format!("LDS: {error}")))?;
        let mut measurement = json!({
            "interval_ms": size.interval_ms,
            "lda": { "banks": lda.banks },
        });
        if let Some(lds) = &lds {
            measurement["lds"] = json!({
                "cells": lds.cells,
                "rows": lds.rows,
                "virtual_cells": lds.virtual_cells,
            });
        }
        let configuration = json!({ "measurement": measurement });
        is_valid(&configuration).map_err(|error| {
            Correctable(format!(
                "no configuration can hold the plan: {error}; allow more error, or shorten the epoch"
            ))
        })?;
        Ok(Self {
            lda,
            lds,
            configuration,
        })
    }

    fn text(&self, size: &Size) -> serde_json::Result<String> {
        let (packets, ms, loss) = (size.packets_per_second, size.interval_ms, size.loss);
        let (packets, loss) = (rate(packets), percent(loss));
        let lda = self.lda.text();
        let lds = self.lds.as_ref().map_or_else(String::new, LdsAnswer::text);
        let fragment = serde_json::to_string_pretty(&self.configuration)?;
        // Without the outer braces it can be pasted between other keys.
        let fragment = fragment.trim_start_matches("{\n").trim_end_matches("\n}");
        Ok(format!(
            "for {packets} packets/s in epochs of {ms} ms, {loss} of them lost\n\n{lda}{lds}\nin the configuration:\n\n{fragment}\n"
        ))
    }
}

/// Whether a switch accepts it.
fn is_valid(configuration: &Value) -> Result<(), ConfigError> {
    let mut whole = configuration.clone();
    whole["ports"] = json!([{ "name": "a", "device": "sink" }, { "name": "b", "device": "sink" }]);
    whole["forwarding"] = json!({ "mode": "bridge" });
    Config::parse(&whole.to_string(), "plan").map(|_| ())
}

fn lda(size: &Size) -> Result<LdaAnswer, SizingError> {
    let demand = LdaDemand {
        packets_per_s: size.packets_per_second,
        epoch_s: f64::from(size.interval_ms) / 1e3,
        loss: size.loss,
        worst_loss: size.worst_loss.unwrap_or(size.loss),
        delay_cv: size.deviation,
        alpha: 1.0,
    };
    let mut plan = LdaPlan::for_error(&demand, size.error)?;
    let rows = u64::from(plan.rows());
    if rows < ROWS_MIN {
        let row_bytes = plan.memory_bytes / rows.max(1);
        plan = LdaPlan::for_memory(&demand, ROWS_MIN * row_bytes)?;
    }
    let banks = plan.banks.iter().map(|bank| LdaBank {
        rows: bank.rows,
        probability: rounded(bank.probability),
    });
    Ok(LdaAnswer {
        banks: banks.collect(),
        memory_bytes: plan.memory_bytes,
        wire_bytes: plan.wire_bytes,
        usual: forecast(&plan.usual),
        worst: (demand.worst_loss > demand.loss).then(|| forecast(&plan.worst)),
    })
}

fn forecast(forecast: &LdaForecast) -> Forecast {
    Forecast {
        lost_packets: forecast.losses,
        effective_samples: forecast.effective_samples,
        mean_error_ratio: forecast.mean_error,
        bound98_ratio: forecast.bound98,
    }
}

fn lds(size: &Size, flows: u64) -> Result<LdsAnswer, SizingError> {
    let epoch_s = f64::from(size.interval_ms) / 1e3;
    let packets = size.packets_per_second * epoch_s;
    let demand = LdsDemand {
        flows,
        sizes: sizes(size.flow_shape, packets, flows)?,
        packets_per_s: size.packets_per_second,
        epoch_s,
        loss: size.loss,
        flow_packets: size.flow_packets.min(packets),
        delay_spread: size.flow_spread,
        delay_cv: size.flow_deviation,
        miss_share: size.miss,
    };
    let plan = LdsPlan::for_error(&demand, size.flow_error)?;
    Ok(LdsAnswer {
        cells: plan.cells(),
        rows: plan.row_probabilities.iter().map(|p| rounded(*p)).collect(),
        columns: plan.columns,
        virtual_cells: plan.virtual_cells,
        memory_bytes: plan.memory_bytes,
        wire_bytes: plan.wire_bytes,
        flow_packets: demand.flow_packets,
        error_ratio: plan.error,
        miss_share: plan.miss_share,
    })
}

/// Pareto sizes such that `flows` flows have `packets` packets on average, none more than all.
fn sizes(shape: f64, packets: f64, flows: u64) -> Result<FlowSizes, SizingError> {
    let mean = packets / flows.max(1) as f64;
    // The mean rises with the least size and is never far from it, so bisect.
    let (mut low, mut high) = (0.0, mean);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        let sizes = FlowSizes::pareto(middle, shape, packets)?;
        if sizes.mean_up_to(f64::INFINITY) < mean {
            low = middle;
        } else {
            high = middle;
        }
    }
    FlowSizes::pareto(high, shape, packets)
}

impl LdaAnswer {
    fn text(&self) -> String {
        let banks = self.banks.iter();
        let banks = banks.map(|bank| format!("{} rows sampling {}", bank.rows, bank.probability));
        let banks = banks.collect::<Vec<_>>().join(", ");
        let memory = memory(self.memory_bytes, self.wire_bytes, "segment");
        let mean = self.usual.words();
        let worst = self.worst.as_ref();
        let worst = worst.map(|worst| format!("worst   {}\n", worst.words()));
        let worst = worst.unwrap_or_default();
        format!("LDA     {banks}\n{memory}\nmean    {mean}\n{worst}")
    }
}

impl Forecast {
    fn words(&self) -> String {
        format!(
            "off by {} on average, by {} at most in 98 of 100 epochs; from {} samples, {} lost",
            percent(self.mean_error_ratio),
            percent(self.bound98_ratio),
            rate(self.effective_samples),
            rate(self.lost_packets),
        )
    }
}

impl LdsAnswer {
    fn text(&self) -> String {
        let Self { cells, columns, .. } = self;
        let probabilities: Vec<String> = self.rows.iter().map(ToString::to_string).collect();
        let probabilities = probabilities.join(", ");
        let rows = counted(self.rows.len(), "row");
        let each = counted(self.virtual_cells as usize, "cell");
        let memory = memory(self.memory_bytes, self.wire_bytes, "egress port");
        let (packets, error) = (self.flow_packets, percent(self.error_ratio));
        let miss = percent(self.miss_share);
        format!(
            "\nLDS     {cells} cells: {rows} of {columns} columns, sampling {probabilities}; {each} of each for a flow\n\
             {memory}\n\
             flows   of {packets:.0} packets and more: off by {error} at most, but for {miss} of them\n"
        )
    }
}

fn memory(memory_bytes: u64, wire_bytes: u64, of: &str) -> String {
    format!(
        "memory  {} for each {of}, times 3 for each worker and 2; {} on the wire",
        bytes(memory_bytes),
        bytes(wire_bytes)
    )
}

fn percent(share: f64) -> String {
    // Three digits, without trailing zeros.
    let text = rate(share * 100.0);
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text}%")
}

/// Rounded down, so that the shares of all banks add up to at most 1.
fn rounded(probability: f64) -> f64 {
    let rounded = (probability * PROBABILITY_DECIMALS).floor() / PROBABILITY_DECIMALS;
    if rounded > 0.0 { rounded } else { probability }
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "expected a number, such as 100000, 1e6 or 0.5".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        None => number(text),
    };
    share.map_err(|_| "expected a share, such as 0.01 or 1%".to_owned())
}

#[cfg(test)]
mod tests;
