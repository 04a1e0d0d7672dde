use proptest::prelude::*;

use super::sheet::LINE_BYTES_MAX;
use super::*;

fn cells(text: &str) -> Result<Vec<(u64, CellRecord)>, ReadError> {
    read_cells("cells.csv", text.as_bytes())
}

fn flows(text: &str) -> Result<FlowList, ReadError> {
    read_flows("flows.csv", text.as_bytes())
}

const CELLS: &str = "row,col,n_tx,s_tx_ns,d_tx,n_rx,s_rx_ns,d_rx\n";

#[test]
fn cells_in_any_order_of_columns_and_with_more_of_them() {
    let table = cells(
        "\u{feff}note,d_rx,s_rx_ns,n_rx,d_tx,s_tx_ns,n_tx,col,row\r\n\
         a,0xff,10,2,255,18446744073709551610,2,7,1\r\n\
         \r\n\
         \"b,\"\"c\"\"\", , 5 ,2,,,2,8,1",
    )
    .unwrap();
    let (known, unknown) = (&table[0].1, &table[1].1);
    assert_eq!((known.row, known.column), (1, 7));
    // From 2^64 - 6 to 10: 16 ns.
    assert_eq!(known.delays(), Some((2, 16)));
    assert_eq!(unknown.receiver.sum_ns, Some(5));
    assert_eq!(unknown.sender.sum_ns, None);
    assert_eq!(unknown.delays(), None);
}

#[test]
fn a_cell_is_usable_where_both_ends_agree() {
    for (fields, delays) in [
        ("2,10,3,2,25,3", Some((2, 15))),
        ("2,10,3,2,25,4", None),         // digests differ
        ("2,10,,2,25,4", Some((2, 15))), // one is unknown: counts decide
        ("2,10,,2,25,", Some((2, 15))),
        ("2,10,3,3,25,3", None), // counts differ
        (",10,3,2,25,3", None),
        (",10,3,,25,3", None),
        ("2,,3,2,25,3", None),
        ("2,10,3,2,,3", None),
        ("2,25,3,2,10,3", Some((2, -15))),
        ("0,0,0,0,0,0", Some((0, 0))),
    ] {
        let table = cells(&format!("{CELLS}0,0,{fields}\n")).unwrap();
        assert_eq!(table[0].1.delays(), delays, "{fields}");
    }
}

#[test]
fn errors_say_where_and_what_to_do() {
    let long = format!("{CELLS}0,0,{}1,0,0,0,0,0\n", " ".repeat(LINE_BYTES_MAX));
    let wide = format!("{CELLS}{}", "a,".repeat(10));
    for (text, message) in [
        (
            "",
            "cells.csv: empty; the first line must name the columns: \
             row,col,n_tx,s_tx_ns,d_tx,n_rx,s_rx_ns,d_rx",
        ),
        (
            "row,col\n",
            "cells.csv, line 1: no column n_tx; the first line must name the columns: \
             row,col,n_tx,s_tx_ns,d_tx,n_rx,s_rx_ns,d_rx",
        ),
        (
            "row,row,col,n_tx,s_tx_ns,d_tx,n_rx,s_rx_ns,d_rx\n",
            "cells.csv, line 1: column row occurs twice; leave one",
        ),
        (
            &format!("{CELLS}0,0,1,2,3\n"),
            "cells.csv, line 2: 5 fields, but the first line names 8 columns",
        ),
        (
            &wide,
            "cells.csv, line 2: 11 fields, but the first line names 8 columns",
        ),
        (
            &format!("{CELLS}0,0,1,2,3,1,2,3\n4,0,1,2,3,1,2,3\n"),
            "cells.csv, line 3, column row: \"4\" is not a row, 0 to 3",
        ),
        (
            &format!("{CELLS}\n\n0,,1,2,3,1,2,3\n"),
            "cells.csv, line 4, column col: \"\" is not a column, 0 to 4194303",
        ),
        (
            &format!("{CELLS}0,4194304,1,2,3,1,2,3\n"),
            "cells.csv, line 2, column col: \"4194304\" is not a column, 0 to 4194303",
        ),
        (
            &format!("{CELLS}0,0,-1,2,3,1,2,3\n"),
            "cells.csv, line 2, column n_tx: \"-1\" is not a number of packets, 0 to 2^64 - 1",
        ),
        (
            &format!("{CELLS}0,0,1,nan,3,1,2,3\n"),
            "cells.csv, line 2, column s_tx_ns: \"nan\" is not a sum of nanoseconds modulo \
             2^64, -2^63 to 2^64 - 1",
        ),
        (
            &format!("{CELLS}0,0,1,2,xyz,1,2,3\n"),
            "cells.csv, line 2, column d_tx: \"xyz\" is not 64 bits, decimal or 0x and \
             hexadecimal",
        ),
        (
            &format!("{CELLS}1,7,1,2,3,1,2,3\n1,7,1,2,3,1,2,3\n"),
            "cells.csv, line 3: row 1, col 7 is already on line 2; leave one of them",
        ),
        (
            &long,
            "cells.csv, line 2: more than 65536 bytes on one line; is it a CSV file?",
        ),
    ] {
        let error = cells(text).expect_err(text);
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn bytes_that_are_no_text_are_shown_as_well_as_can_be() {
    let mut text = format!("{CELLS}0,0,").into_bytes();
    text.extend(b"\xff\xfe,1,1,1,1,1\n");
    let error = read_cells("-", text.as_slice()).unwrap_err();
    assert!(
        error.to_string().starts_with("-, line 2, column n_tx:"),
        "{error}"
    );
}

#[test]
fn lines_are_counted_as_editors_do() {
    for ends in ["\n", "\r\n"] {
        for blank in ["", "\n", "\r\n\n"] {
            let text = format!("kind{ends}{blank}\"a\n\nb\"{ends}\"c\"{ends}{blank}x,y");
            let mut sheet = sheet::Sheet::open("-", text.as_bytes(), "kind").unwrap();
            let blanks = blank.matches('\n').count() as u64;
            let mut lines = Vec::new();
            let error = loop {
                match sheet.next_line() {
                    Ok(_) => lines.push(sheet.number()),
                    Err(error) => break error.to_string(),
                }
            };
            assert_eq!(lines, [2 + blanks, 5 + blanks], "{text:?}");
            let last = 6 + 2 * blanks;
            assert!(
                error.starts_with(&format!("-, line {last}: 2 fields")),
                "{error}"
            );
        }
    }
}

#[test]
fn flows_tell_the_rows_of_the_sketch() {
    let list = flows(
        "packets,flow,col_0,col_1,rli_mean_ns\n\
         10,10.0.0.1:443>10.0.0.2:55000/tcp,3,4,1.5e3\n\
         2.5,b,0,1,\n\
         ,\"c,d\",0,2,-7\n",
    )
    .unwrap();
    assert_eq!(list.rows, 2);
    assert_eq!(list.columns, [3, 4, 0, 1, 0, 2]);
    assert_eq!(list.names[2], "c,d");
    assert_eq!(list.packets[..2], [10.0, 2.5]);
    assert!(list.packets[2].is_nan());
    assert_eq!((list.rli_mean_ns[0], list.rli_mean_ns[2]), (1_500.0, -7.0));
    assert!(list.rli_mean_ns[1].is_nan());
    assert!(list.true_mean_ns.iter().all(|mean| mean.is_nan()));
}

#[test]
fn errors_of_flows() {
    for (text, message) in [
        (
            "flow,packets\na,1\n",
            "flows.csv, line 1: no column col_0; the first line must name the columns: \
             flow,packets,col_0 (to col_3; one for each row of the sketch)",
        ),
        (
            "flow,packets,col_0,col_2\n",
            "flows.csv, line 1: no column col_1; the first line must name the columns: \
             flow,packets,col_0 (to col_3; one for each row of the sketch)",
        ),
        (
            "flow,packets,col_0,col_1,col_2,col_3,col_4\n",
            "flows.csv, line 1: more than 4 rows of a sketch; give it 4",
        ),
        (
            "flow,packets,col_0\n,1,2\n",
            "flows.csv, line 2, column flow: \"\" is not the name of a flow, 256 bytes at most",
        ),
        (
            "flow,packets,col_0\na,-1,2\n",
            "flows.csv, line 2, column packets: \"-1\" is not a number of packets, 0 or more",
        ),
        (
            "flow,packets,col_0\na,1,2\nb,1,2\na,1,2\n",
            "flows.csv, line 4: flow a is already on line 2; add them up or leave one",
        ),
        (
            "flow,packets,col_0,rli_mean_ns\na,1,2,inf\n",
            "flows.csv, line 2, column rli_mean_ns: \"inf\" is not a finite number of nanoseconds",
        ),
    ] {
        assert_eq!(flows(text).expect_err(text).to_string(), message);
    }
}

#[test]
fn weights_go_to_their_flows() {
    let list = flows("flow,packets,col_0\na,1,0\nb,1,1\nc,1,2\n").unwrap();
    let weights = |text: &str| read_weights("w.csv", text.as_bytes(), &list);
    assert_eq!(
        weights("weight,flow\n25,c\n100,a\n").unwrap(),
        [100.0, 1.0, 25.0]
    );
    for (text, message) in [
        (
            "flow,weight\nd,1\n",
            "w.csv, line 2: flow d is not in the list of flows",
        ),
        (
            "flow,weight\na,1\na,1\n",
            "w.csv, line 3: flow a has a weight already; leave one",
        ),
        (
            "flow,weight\na,0\n",
            "w.csv, line 2, column weight: \"0\" is not a weight over 0",
        ),
    ] {
        assert_eq!(weights(text).expect_err(text).to_string(), message);
    }
}

#[test]
fn what_is_written_can_be_read() {
    let half = |count, digest| Half {
        count: Some(count),
        sum_ns: Some(u64::MAX - count),
        digest,
    };
    let written = [
        CellRecord {
            row: 0,
            column: 0,
            sender: half(0, Some(u64::MAX)),
            receiver: Half::default(),
        },
        CellRecord {
            row: 3,
            column: SKETCH_COLUMNS_MAX - 1,
            sender: half(u64::MAX, None),
            receiver: half(7, Some(1)),
        },
    ];
    let mut out = Vec::new();
    write_cells(&mut out, written).unwrap();
    let read = read_cells("-", out.as_slice()).unwrap();
    assert_eq!(read, [(2, written[0]), (3, written[1])]);

    let list = FlowList {
        rows: 2,
        names: vec!["a \"quoted\", name".into(), "b".into()],
        columns: vec![1, 2, 3, 4],
        packets: vec![0.1, 1e20],
        rli_mean_ns: vec![-1.0 / 3.0, 5e-324],
        true_mean_ns: vec![f64::MAX, 0.0],
    };
    let mut out = Vec::new();
    write_flows(&mut out, &list).unwrap();
    assert_eq!(read_flows("-", out.as_slice()).unwrap(), list);
}

#[test]
fn packets_of_a_segment() {
    let mut packets = Vec::new();
    let text = "recv_ns,send_ns,packet_id\n5.25,-1,a b\n,2,7\n";
    read_pairs("pairs.csv", text.as_bytes(), |pair| {
        packets.push((pair.packet_id.to_vec(), pair.send_ps, pair.receive_ps));
    })
    .unwrap();
    assert_eq!(
        packets,
        [
            (b"a b".to_vec(), -1_000, Some(5_250)),
            (b"7".to_vec(), 2_000, None)
        ]
    );
    let error = read_pairs("p", &b"packet_id,send_ns,recv_ns\n,1,2\n"[..], |_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "p, line 2, column packet_id: \"\" is not the id of a packet"
    );
}

#[test]
fn packets_of_a_link() {
    let link = |text: &str| {
        let mut packets = Vec::new();
        read_link("link.csv", text.as_bytes(), |packet| {
            packets.push((packet.kind, packet.flow.to_owned(), packet.bytes));
        })
        .map(|()| packets)
    };
    let header = "kind,flow,bytes,send_ns,recv_ns\n";
    assert_eq!(
        link(&format!(
            "{header}reference,,64,0,1\nregular,f,1500,0,\ncross,,576,7,9\n"
        ))
        .unwrap(),
        [
            (Kind::Reference, String::new(), 64),
            (Kind::Regular, "f".into(), 1_500),
            (Kind::Cross, String::new(), 576)
        ]
    );
    for (line, message) in [
        (
            "probe,f,64,0,1",
            "link.csv, line 2, column kind: \"probe\" is not reference, regular or cross",
        ),
        (
            "regular,,64,0,1",
            "link.csv, line 2, column flow: \"\" is not the name of a flow in UTF-8, 256 bytes \
             at most",
        ),
        (
            "cross,,16777217,0,1",
            "link.csv, line 2, column bytes: \"16777217\" is not a length in bytes, 0 to 16777216",
        ),
        (
            "cross,,64,,1",
            "link.csv, line 2, column send_ns: \"\" is not a time in nanoseconds, -2^63 to 2^63 \
             - 1, with three decimals at most",
        ),
        (
            "cross,,64,5,6\ncross,,64,4,6",
            "link.csv, line 3: sent sooner than the packet on the line before; sort the file by \
             send_ns",
        ),
    ] {
        let text = format!("{header}{line}\n");
        assert_eq!(link(&text).expect_err(line).to_string(), message);
    }
}

#[test]
fn whole_numbers() {
    for (text, value) in [
        ("0", Some(0)),
        ("007", Some(7)),
        ("+7", Some(7)),
        ("7.0", Some(7)),
        ("7.", Some(7)),
        ("1e6", Some(1_000_000)),
        ("1.25E+2", Some(125)),
        ("1200e-2", Some(12)),
        ("0e-999", Some(0)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("-0", Some(0)),
        ("-1", None),
        ("7.5", None),
        ("1e40", None),
        ("1e99999999999", None),
        ("1e-40", None),
        ("", None),
        (".", None),
        ("-", None),
        ("--1", None),
        ("1 2", None),
        ("1_000", None),
        ("nan", None),
        ("inf", None),
        ("0x10", None),
        ("\u{664}", None), // a digit, but not one of ours
        ("111111111111111111111111111111111111111", None),
    ] {
        assert_eq!(whole(text), value, "{text}");
    }
}

#[test]
fn sums_wrap() {
    assert_eq!(wrapping_sum("18446744073709551615"), Some(u64::MAX));
    assert_eq!(wrapping_sum("-1"), Some(u64::MAX));
    assert_eq!(wrapping_sum("-9223372036854775808"), Some(1 << 63));
    assert_eq!(wrapping_sum("-9223372036854775809"), None);
    assert_eq!(wrapping_sum("12.5"), Some(13));
    assert_eq!(wrapping_sum("12.499"), Some(12));
}

#[test]
fn digests_are_decimal_or_hexadecimal() {
    assert_eq!(bits("0xffffffffffffffff"), Some(u64::MAX));
    assert_eq!(bits("0XfF"), Some(255));
    assert_eq!(bits("255"), Some(255));
    for text in ["0x", "0x+1", "0x-1", "0x10000000000000000", "ff", "-1"] {
        assert_eq!(bits(text), None, "{text}");
    }
}

#[test]
fn numbers_are_finite() {
    assert_eq!(finite("-2.5e3"), Some(-2_500.0));
    for text in ["NaN", "inf", "-inf", "infinity", "1e999", ""] {
        assert_eq!(finite(text), None, "{text}");
    }
}

#[test]
fn times_are_rounded_to_picoseconds() {
    assert_eq!(time_ps("12.3456"), Some(12_346));
    assert_eq!(time_ps("-0.25"), Some(-250));
    assert_eq!(time_ps("9223372036854775807.9999"), None);
    assert_eq!(
        time_ps("-9223372036854775808"),
        Some(i128::from(i64::MIN) * 1_000)
    );
    assert_eq!(time_ps("1.7e18"), Some(1_700_000_000_000_000_000_000));
}

proptest! {
    #[test]
    fn integers_come_back(value: i64, digest: u64) {
        prop_assert_eq!(time_ps(&value.to_string()), Some(i128::from(value) * 1_000));
        prop_assert_eq!(wrapping_sum(&value.to_string()), Some(value.cast_unsigned()));
        prop_assert_eq!(whole(&digest.to_string()), Some(digest));
        prop_assert_eq!(bits(&format!("{digest:#x}")), Some(digest));
    }
}
