use proptest::prelude::*;

use super::*;

#[test]
fn what_is_no_address_is_refused_in_words() {
    let mac = |text: &str| text.parse::<MacAddress>().unwrap_err().to_string();
    for text in [
        "",
        "02:00:00:00:00",
        "02:00:00:00:00:00:00",
        "2:0:0:0:0:1",
        "0g:00:00:00:00:01",
    ] {
        let expected = "an Ethernet address such as 02:00:00:00:00:01";
        assert_eq!(mac(text), format!("{text:?} is not {expected}"));
    }
    let prefix = |text: &str| text.parse::<Prefix>().unwrap_err().to_string();
    for text in [
        "",
        "10.0.0/8",
        "10.0.0.0/33",
        "2001:db8::/129",
        "10.0.0.0/",
        "10.0.0.0/-1",
    ] {
        let expected = "a prefix such as 10.0.0.0/8 or 2001:db8::/32, or an address";
        assert_eq!(prefix(text), format!("{text:?} is not {expected}"));
    }
    let one: Prefix = "2001:db8::1".parse().unwrap();
    assert_eq!(one.bits, 128);
}

#[test]
fn a_port_alone_and_localhost_can_be_listened_on() {
    for (text, address) in [
        (":9464", "[::]:9464"),
        ("localhost:9464", "127.0.0.1:9464"),
        ("0.0.0.0:1", "0.0.0.0:1"),
        ("[::1]:0", "[::1]:0"),
    ] {
        assert_eq!(listen_address(text).unwrap().to_string(), address);
    }
    for text in [
        "",
        "9464",
        "127.0.0.1",
        ":",
        ":+1",
        ":65536",
        "example.com:1",
        "localhost",
        "::1:9464",
    ] {
        let error = listen_address(text).unwrap_err().to_string();
        let wanted = format!("{text:?} is not an address with a port, such as 127.0.0.1:9464");
        assert!(error.starts_with(&wanted), "{error}");
    }
}

proptest! {
    #[test]
    fn addresses_are_read_as_they_are_written(
        octets: [u8; 6],
        address: std::net::IpAddr,
        bits in 0_u8..=32,
    ) {
        let address_text = MacAddress(octets).to_string();
        prop_assert_eq!(address_text.parse::<MacAddress>(), Ok(MacAddress(octets)));
        let prefix = Prefix { address, bits };
        prop_assert_eq!(prefix.to_string().parse::<Prefix>(), Ok(prefix));
    }

    #[test]
    fn no_text_panics(text in ".{0,40}") {
        let _ = text.parse::<MacAddress>();
        let _ = text.parse::<Prefix>();
        let _ = listen_address(&text);
    }
}
