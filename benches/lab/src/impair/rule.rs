//! The impairments of each direction.

use std::str::FromStr;

use anyhow::{Result, ensure};
use contract::address::MacAddress;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Impairments of packets. Shares are probabilities, 0 to 1.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Delay of every packet, microseconds.
    pub delay_us: f64,
    /// Random deviation from the delay, up to this much more or less, uniformly distributed. Packets stay in order.
    pub jitter_us: f64,
    /// Rate of the link behind, Mbit/s of frames without preamble and gap. Unlimited if omitted.
    pub rate_mbps: Option<f64>,
    pub loss: f64,
    /// Share that is held back.
    pub reorder: f64,
    /// A packet that is held back leaves when this many others have overtaken it.
    pub reorder_packets: u32,
    /// Decrement the time to live, as a router does.
    pub hop: bool,
    pub source_mac: Option<MacAddress>,
    pub destination_mac: Option<MacAddress>,
    pub dscp: Option<u8>,
}

impl Rule {
    /// Fails at the first invalid number.
    pub fn check(&self) -> Result<()> {
        for (key, share) in [("loss", self.loss), ("reorder", self.reorder)] {
            let holds = (0.0..=1.0).contains(&share);
            ensure!(holds, "{key}={share}: expected a share from 0 to 1");
        }
        for (key, time) in [("delay_us", self.delay_us), ("jitter_us", self.jitter_us)] {
            let holds = (0.0..=60e6).contains(&time);
            ensure!(holds, "{key}={time}: expected 0 to 60000000 microseconds");
        }
        if let Some(rate) = self.rate_mbps {
            let holds = rate.is_finite() && rate > 0.0;
            ensure!(holds, "rate_mbps={rate}: expected a rate over 0");
        }
        let holds = self.reorder == 0.0 || self.reorder_packets > 0;
        ensure!(holds, "reorder_packets=0: expected 1 or more packets");
        let dscp = self.dscp.unwrap_or(0);
        ensure!(dscp < 64, "dscp={dscp}: expected 0 to 63");
        Ok(())
    }
}

/// `KEY=VALUE,...`: `loss=0.01,delay_us=500,hop`.
impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut keys = Map::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            // A flag is set by its name alone.
            let (key, value) = part.split_once('=').unwrap_or((part, "true"));
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            if keys.insert(key.to_owned(), value).is_some() {
                return Err(format!("{key} is given twice"));
            }
        }
        let rule = serde_json::from_value(keys.into());
        let rule: Self = rule.map_err(|error| error.to_string())?;
        rule.check().map_err(|error| error.to_string())?;
        Ok(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_from_the_command_line() {
        let rule: Rule = "loss=0.05,hop,dscp=46,source_mac=02:00:00:00:00:01"
            .parse()
            .unwrap();
        assert_eq!((rule.loss, rule.dscp), (0.05, Some(46)));
        assert!(rule.hop);
        assert_eq!(rule.source_mac, Some(MacAddress([2, 0, 0, 0, 0, 1])));
        assert_eq!("".parse(), Ok(Rule::default()));
        for (text, complaint) in [
            ("loss=1.5", "loss=1.5: expected a share"),
            ("loss=0.1,loss=0.2", "loss is given twice"),
            ("los=0.1", "unknown field `los`"),
            ("delay_us=-1", "delay_us=-1"),
            ("rate_mbps=0", "a rate over 0"),
            ("reorder=0.1", "reorder_packets=0"),
            ("dscp=64", "0 to 63"),
            ("source_mac=02:00", "Ethernet address"),
        ] {
            let error = text.parse::<Rule>().unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
