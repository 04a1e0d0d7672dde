//! Names from a database that the test plays.

use std::os::unix::net::UnixListener;

use super::*;

/// A database that sends these messages one by one; returns the first request that it received.
fn database(listener: &UnixListener, messages: &[Value]) -> (UnixStream, Value) {
    let (mut stream, _) = listener.accept().unwrap();
    let asked = received(&stream);
    for message in messages {
        send(&mut stream, message).unwrap();
    }
    (stream, asked)
}

/// The next message.
fn received(stream: &UnixStream) -> Value {
    let mut messages = Deserializer::from_reader(stream).into_iter();
    messages.next().unwrap().unwrap()
}

fn interface(name: &str, key: &str, value: &str) -> Value {
    json!({ "new": { "name": name, "options": ["map", [["n_rxq", "2"], [key, value]]] } })
}

/// A bridge with a port of one interface, and a bond of two.
fn tables() -> Value {
    json!({
        "Bridge": { "b": { "new": { "name": "br0", "ports": ["set", [["uuid", "p"], ["uuid", "q"]]] } } },
        "Port": {
            "p": { "new": { "interfaces": ["uuid", "1"] } },
            "q": { "new": { "interfaces": ["set", [["uuid", "2"], ["uuid", "3"]]] } },
        },
        "Interface": {
            "1": interface("p1", "dpdk-devargs", "net_af_packet1,iface=eth1"),
            "2": interface("vm", "vhost-server-path", "/run/vm.sock"),
            "3": { "new": { "name": "vm2", "options": ["map", []] } },
            "4": interface("by-address", "dpdk-devargs", "class=eth,mac=00:11:22:33:44:55"),
            "5": interface("vf", "dpdk-devargs", "0000:03:00.0,representor=[0]"),
            "6": interface("a\nb", "dpdk-devargs", "0000:04:00.0"),
            "7": interface("p7", "dpdk-devargs", "0000:05:00.0"),
        },
    })
}

fn wait_for(names: &OpenVSwitch, holds: impl Fn(&Ports) -> bool) {
    let began = Instant::now();
    while !names.names().is_some_and(|names| holds(&names)) {
        assert!(began.elapsed() < Duration::from_mins(1), "{names:?}");
        thread::yield_now();
    }
}

#[test]
fn names_are_those_of_the_database_now() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("db.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let served = thread::spawn(move || {
        let messages = [json!({ "id": 0, "result": tables(), "error": null })];
        let (stream, asked) = database(&listener, &messages);
        (listener, stream, asked)
    });
    let mut switch = OpenVSwitch::at(socket);
    let (listener, mut stream, asked) = served.join().unwrap();
    assert_eq!(asked["method"], "monitor");
    wait_for(&switch, |names| {
        let of = |device| named(names, device).map(|port| (&*port.name, &*port.bridge));
        assert_eq!(of("net_af_packet1"), Some(("p1", "br0")));
        assert_eq!(of("/run/vm.sock"), Some(("vm", "br0")));
        assert_eq!(of("/run/openvswitch/vm2"), Some(("vm2", "br0")));
        assert_eq!(of("0000:05:00.0"), Some(("p7", "")));
        let unnamed = ["0000:03:00.0", "0000:04:00.0", "class=eth"];
        unnamed.iter().all(|device| of(device).is_none())
    });
    assert!(switch.is_settled("net_af_packet1"));
    assert!(!switch.is_settled("net_af_packet2"));

    // Deleted, renamed, and asked whether it is there.
    let update = json!({ "Interface": {
        "1": { "old": {} },
        "7": interface("p8", "dpdk-devargs", "0000:05:00.0"),
    } });
    let update = json!({ "id": null, "method": "update", "params": [null, update] });
    send(&mut stream, &update).unwrap();
    let echo = json!({ "id": "echo", "method": "echo", "params": [1] });
    send(&mut stream, &echo).unwrap();
    let reply = json!({ "id": "echo", "result": [1], "error": null });
    assert_eq!(received(&stream), reply);
    let names = switch.names().unwrap();
    assert_eq!(named(&names, "net_af_packet1"), None);
    assert_eq!(named(&names, "0000:05:00.0").unwrap().name, "p8");

    // If the database goes away, it is asked again, and names are kept.
    drop(stream);
    let empty = json!({ "id": 0, "result": {}, "error": null });
    let (_stream, asked) = database(&listener, &[empty]);
    assert_eq!(asked["method"], "monitor");
    assert_eq!(named(&names, "0000:05:00.0").unwrap().name, "p8");
    wait_for(&switch, Ports::is_empty);
}

#[test]
fn a_database_that_cannot_be_followed_is_said_why() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("db.sock");
    let why = |answer: Option<&[u8]>| {
        let listener = answer.map(|_| UnixListener::bind(&socket).unwrap());
        thread::scope(|scope| {
            scope.spawn(|| {
                let Some(listener) = listener else { return };
                let (mut stream, _) = listener.accept().unwrap();
                received(&stream);
                // The client may close the connection before all messages are sent.
                let _ = stream.write_all(answer.unwrap());
            });
            let answered = mpsc::channel().0;
            let Err(error) = follow(&socket, &Answer::default(), &answered);
            let _ = fs::remove_file(&socket);
            error.to_string()
        })
    };
    assert!(why(None).contains("No such file"));
    assert!(why(Some(b"{\"id\":0,\"error\":\"unknown database\"}")).contains("unknown database"));
    assert!(why(Some(b"HTTP/1.1 400")).contains("expected value"));
    let endless = [&b"{\"a\":\""[..], &vec![b'a'; 9 << 20]].concat();
    assert!(why(Some(&endless)).contains("EOF"));
    let deep = [&b"{\"a\":"[..], &[b'['; 1_000]].concat();
    assert!(why(Some(&deep)).contains("recursion"));
}

#[test]
fn the_socket_is_that_of_the_program_s_argument() {
    let cases: [(&[u8], &str); 3] = [
        (b"ovs-vswitchd\0--pidfile\0", "/run/ovs/db.sock"),
        (b"ovs-vswitchd\0unix:a.sock\0-v\0", "/run/ovs/a.sock"),
        (b"ovs-vswitchd\0--pidfile\0unix:/x/db\0", "/x/db"),
    ];
    for (arguments, expected) in cases {
        let found = socket(arguments, Path::new("/run/ovs"));
        assert_eq!(found, Path::new(expected));
    }
}
