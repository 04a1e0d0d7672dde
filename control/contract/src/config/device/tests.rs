use super::*;
use proptest::prelude::*;

fn error(text: &str) -> String {
    text.parse::<Device>().unwrap_err().to_string()
}

#[test]
fn arguments_are_pairs_and_the_last_of_a_key_counts() {
    let device = "net_memif0,id=1 ,socket=/a=b,id=2,alone";
    let all = [("id", "1 "), ("socket", "/a=b"), ("id", "2")];
    assert!(arguments(device).eq(all));
    assert_eq!(argument(device, "id"), Some("2"));
    assert_eq!(argument("net_null0", "id"), None);
}

#[test]
fn each_kind_has_its_own_text() {
    assert_eq!("sink".parse(), Ok(Device::Sink));
    let nic = "0000:03:00.0";
    assert_eq!(nic.parse(), Ok(Device::Dpdk(nic.to_owned())));
    let vdev = "net_pcap0,rx_pcap=a?b.pcap,infinite_rx=1";
    assert_eq!(vdev.parse(), Ok(Device::Dpdk(vdev.to_owned())));
    assert_eq!(
        "replay:/a b/c?d.pcap?speed=2.5&loop=0".parse(),
        Ok(Device::Replay(Replay {
            file: "/a b/c?d.pcap".into(),
            speed: 2.5,
            loops: 0,
        }))
    );
    assert_eq!(
        "generate".parse(),
        Ok(Device::Generate(Generate::default()))
    );
    assert_eq!(
        "generate:flows=7,size=128,rate=2e3,side=1".parse(),
        Ok(Device::Generate(Generate {
            flows: 7,
            size: FrameSize::Fixed(128),
            rate_pps: 2_000.0,
            side: 1,
            ..Generate::default()
        }))
    );
}

#[test]
fn errors_name_key_value_and_what_is_allowed() {
    assert_eq!(
        error("generate:flows=0"),
        "generate: `flows=0`: expected a whole number from 1 to 10000000"
    );
    assert_eq!(
        error("generate:sise=64"),
        "generate: unknown key `sise`; keys are flows, size, rate, burst, pareto, seed, macs, \
         side"
    );
    assert_eq!(
        error("generate:rate=nan"),
        "generate: `rate=nan`: expected packets a second over 0, up to 100000000"
    );
    assert_eq!(
        error("generate:seed=1,seed=2"),
        "generate: `seed` is given twice"
    );
    assert_eq!(
        error("replay:a.pcap?fast"),
        "replay: `fast` is not KEY=VALUE; keys are speed, loop"
    );
    assert_eq!(
        error("replay:a.pcap?speed=0"),
        "replay: `speed=0`: expected a number over 0, up to 1000000"
    );
    assert!(error("replay:").contains("names no capture"));
    assert!(error("replay:?loop=0").contains("names no capture"));
    assert!(error("").contains("the device is empty"));
}

fn any_device() -> impl Strategy<Value = Device> {
    let size = prop_oneof![
        Just(FrameSize::Imix),
        (60..=9_014_u16).prop_map(FrameSize::Fixed)
    ];
    let numbers = (1.0..1e3_f64, 0.01..10.0_f64, any::<u64>());
    let counts = (1..=10_000_000_u32, 1..=65_536_u32, 0..=1_u8);
    let generate = (counts, size, 0.001..1e8_f64, numbers).prop_map(
        |((flows, macs, side), size, rate_pps, (burst, pareto, seed))| {
            Device::Generate(Generate {
                flows,
                size,
                rate_pps,
                burst,
                pareto,
                seed,
                macs,
                side,
            })
        },
    );
    let replay = ("[a-z?:/=&]{1,12}", 0.001..1e6_f64, 0..3_u64).prop_map(|(file, speed, loops)| {
        Device::Replay(Replay {
            file: file.into(),
            speed,
            loops,
        })
    });
    let once = "[a-z?]{1,12}".prop_map(|file: String| Device::Replay(Replay::new(file)));
    prop_oneof![Just(Device::Sink), generate, replay, once]
}

proptest! {
    #[test]
    fn display_and_parse_round_trip(device in any_device()) {
        prop_assert_eq!(device.to_string().parse(), Ok(device));
    }

    #[test]
    fn no_string_panics(text in "(replay|generate|sink)?[:?=&,a-z0-9.]*") {
        let _ = text.parse::<Device>();
    }
}
