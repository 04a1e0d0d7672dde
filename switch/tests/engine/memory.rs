//! The memory that `--check` prints equals that of the data plane.

use contract::config::Config;
use contract::config::memory::Memory;
use switch::egress::EgressLayout;

const CONFIG: &str = r#"{
    "ports": [
        { "name": "a", "device": "sink" },
        { "name": "b", "device": "sink", "egress": { "queue_packets": 3 } },
        { "name": "c", "device": "sink", "egress": { "queues": [
            { "classes": ["x"], "packets": 77 }, { "classes": ["y"], "packets": 1000 }
        ] } }
    ],
    "classes": [{ "name": "x" }, { "name": "y" }],
    "forwarding": { "mode": "bridge" },
    "workers": [{}]
}"#;

#[test]
fn egress_queues_take_what_the_check_says() {
    let config = Config::parse(CONFIG, "memory.rs").unwrap();
    let taken = config.ports.iter().map(|port| {
        EgressLayout::from_config(&port.egress, port.mtu, &config.classes).size_bytes()
    });
    let memory = Memory::of(&config);
    let mut items = memory.items().iter();
    let queues = items.find(|item| item.purpose == "egress queues").unwrap();
    assert_eq!(queues.total_bytes(), taken.sum::<usize>());
}
