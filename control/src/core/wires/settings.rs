//! What an exchange is made for, from the configuration.

use contract::config::{Config, Wire as WireConfig, WireKeys};
use contract::ids::PortIndex;
use measure::time::TickRate;
use records::snapshot::{Wire, WireSegment};
use wire::exchange::{Expected, FrameSettings, OwnEnd, Settings};
use wire::frame::{PortName, seed_check};

/// How long a session has the same keys.
const RENEW_NS: u64 = 3_600_000_000_000;

/// The settings of the exchange of one port.
///
/// # Errors
/// In words, what does not fit together.
pub(super) fn settings(
    config: &Config,
    port: PortIndex,
    wire: &WireConfig,
    keys: &WireKeys,
    rate: TickRate,
) -> Result<Settings, String> {
    let index = port.index();
    let (keys, key) = config.wire_keys(index, keys).map_err(|e| e.to_string())?;
    let layout = config.wire_layout(index).map_err(|e| e.to_string())?;
    let seed = config.measurement.hash_key();
    let seed = seed.ok_or("it needs `measurement.hash_seed`")?;
    let bytes_per_s = config.wire_capacity_bps(index) as f64 / 8.0 * wire.share;
    let epoch_ns = config.measurement.interval().as_nanos();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and is over 0"
    )]
    let bytes_per_s = bytes_per_s as u64;
    let name = |name: &str| PortName::from(name).map_err(|error| error.to_string());
    let peer_port = wire.peer_port.as_deref().map(name).transpose()?;
    Ok(Settings {
        own: OwnEnd {
            switch: config.wire_switch(),
            port: port.0.into(),
            port_name: name(config.port_name(index))?,
        },
        is_routed: wire.peer.is_some(),
        expected: Expected {
            switch: wire.peer_switch,
            port: peer_port,
        },
        renew_ns: RENEW_NS,
        keys,
        key,
        layout,
        adaptive: config.wire_adaptive_lda(index),
        seed_check: seed_check(seed),
        epoch_ns: u64::try_from(epoch_ns).unwrap_or(u64::MAX),
        frames: FrameSettings {
            bytes_max: config.wire_frame_bytes(index),
            overhead_bytes: config.wire_overhead_bytes(index),
            bytes_per_s,
        },
        idle_epochs: config.measurement.idle_epochs(),
        components: wire.lds.as_ref().map_or(1, |lds| lds.components.into()),
        resolution_ns: rate.to_ns(1.0).max(1.0),
        delay_min_ns: wire.delay_min_ns,
    })
}

/// A wire's names, and nothing counted.
pub(super) fn named(config: &Config, index: PortIndex) -> Wire {
    let index = index.index();
    let port = config.port_name(index).to_owned();
    let peer = format!("{port}:peer");
    let classes = config.wire_segments(index);
    let outgoing = classes.iter().map(|class| WireSegment {
        from: port.clone(),
        to: peer.clone(),
        class: class.clone(),
        ..WireSegment::default()
    });
    let incoming = classes.iter().map(|class| WireSegment {
        from: peer.clone(),
        to: port.clone(),
        class: class.clone(),
        is_incoming: true,
        ..WireSegment::default()
    });
    Wire {
        segments: outgoing.chain(incoming).collect(),
        port: port.clone(),
        ..Wire::default()
    }
}
