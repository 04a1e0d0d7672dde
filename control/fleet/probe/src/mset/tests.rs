use super::*;

/// Figures 7 and 8 of MPLANE, as docs/topology.md has them.
const TOY: &str = r#"{"nodes": [{"name": "A"}, {"name": "B"}, {"name": "D"}, {"name": "E"},
    {"name": "C", "role": "m-router"}, {"name": "F", "role": "m-router"}], "links": [
    {"from": "A", "to": "B"}, {"from": "A", "to": "F"}, {"from": "B", "to": "F"}, {"from": "C", "to": "D"},
    {"from": "C", "to": "F", "weight": 2}, {"from": "D", "to": "E"}, {"from": "E", "to": "F", "weight": 2}]}"#;

fn config(file: &std::path::Path) -> MsetConfig {
    let text = serde_json::json!({
        "topology": file,
        "addresses": { "A": "192.0.2.1", "B": "192.0.2.2", "D": "192.0.2.4", "E": "192.0.2.5:99" },
        "transition_s": 1,
    });
    serde_json::from_value(text).unwrap()
}

/// Waits until the nodes are these; their targets.
fn until(view: &View, nodes: &[&str]) -> Vec<Target> {
    let began = Instant::now();
    loop {
        let targets = view.read().targets;
        if targets
            .iter()
            .map(|target| &*target.node)
            .eq(nodes.iter().copied())
        {
            return targets;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{targets:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_file_that_changes_changes_the_targets_and_former_ones_stay_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("network.json");
    let write = |text: &str| {
        let new = folder.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &file).unwrap();
    };
    write(TOY);
    let view = follow(config(&file), "F".to_owned()).unwrap();
    // Of two m-routers C lists the link between them.
    let targets = until(&view, &["A", "B", "D", "E"]);
    let to = |node: &str| {
        targets
            .iter()
            .find(|target| target.node == node)
            .unwrap()
            .to
    };
    assert_eq!(
        to("E").unwrap().with_port(PORT),
        "192.0.2.5:99".parse().unwrap()
    );
    assert_eq!(
        to("A").unwrap().with_port(PORT),
        "192.0.2.1:862".parse().unwrap()
    );
    assert!(view.take().is_some());
    assert!(view.take().is_none());

    // E is reached through C only: not F's any more.
    write(&TOY.replace(r#", {"from": "E", "to": "F", "weight": 2}"#, ""));
    let began = Instant::now();
    until(&view, &["A", "B"]);
    assert!(began.elapsed() >= Duration::from_secs(1), "no transition");

    write("{");
    while view.read().problem.is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let wanted = view.read();
    assert!(
        wanted.problem.unwrap().contains("network.json"),
        "where it is wrong"
    );
    assert!(wanted.is_known && wanted.targets.len() == 2);
    write(TOY);
    until(&view, &["A", "B", "D", "E"]);
    assert_eq!(view.read().problem, None);
}

#[test]
fn a_node_that_is_not_there_or_has_no_address_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("network.json");
    std::fs::write(&file, TOY).unwrap();
    let view = follow(config(&file), "Z".to_owned()).unwrap();
    while view.read().problem.is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let problem = view.read().problem.unwrap();
    assert_eq!(problem, "mset.node: the topology has no router \"Z\"");

    let view = follow(config(&file), "C".to_owned()).unwrap();
    let targets = until(&view, &["D", "E", "F"]);
    let without: Vec<_> = targets
        .iter()
        .filter(|target| target.to.is_none())
        .collect();
    assert_eq!((without.len(), &*without[0].node), (1, "F"));
}

#[test]
fn ways_of_equal_cost_have_several_sessions() {
    let target = |ways| Target {
        node: "b".to_owned(),
        to: None,
        ways: vec![NamedWay::new(); ways],
    };
    let lanes = [0, 1, 2, 3, 64].map(|ways| target(ways).lanes());
    assert_eq!(lanes, [0, 1, 4, 6, 16]);
}
