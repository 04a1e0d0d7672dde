//! `vernier-accuracy` as used by people and scripts: exit codes, messages, files.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which the lints treat as ordinary functions"
)]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs with arguments between blanks.
fn run(arguments: &str, input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vernier-accuracy"))
        .args(arguments.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Runs and returns standard output; fails with standard error unless the exit code is 0.
fn succeed(arguments: &str, input: &str) -> String {
    let output = run(arguments, input);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs and returns standard error; fails unless the exit code is 2.
fn refuse(arguments: &str, input: &str) -> String {
    let output = run(arguments, input);
    assert_eq!(output.status.code(), Some(2), "{arguments}");
    assert!(output.stdout.is_empty(), "{arguments}");
    String::from_utf8(output.stderr).unwrap()
}

/// A column of a CSV file as numbers; an empty field is not a number.
fn column(text: &str, name: &str) -> Vec<f64> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let place = reader.headers().unwrap().iter().position(|it| it == name);
    let place = place.unwrap_or_else(|| panic!("no column {name}"));
    let records = reader.records().map(Result::unwrap);
    records
        .map(|record| record[place].parse().unwrap_or(f64::NAN))
        .collect()
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn help_names_every_command_and_what_it_is_for() {
    let help = succeed("--help", "");
    for command in ["tables", "dump", "decode", "lda", "rli"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
        let help = succeed(&format!("{command} --help"), "");
        assert!(help.contains("Usage: vernier-accuracy"), "{help}");
    }
    assert!(help.contains("1 a limit was missed"), "{help}");
}

#[test]
fn bad_usage_is_2() {
    for (arguments, message) in [
        ("tables no-such-experiment", "possible values"),
        ("tables --scale 0", "give a number from 0.0001 to 100"),
        ("tables --scale nan", "give a number from 0.0001 to 100"),
        ("tables --seeds 0", "1..=1000"),
        (
            "tables --capture /nowhere.pcap",
            "/nowhere.pcap: no such file",
        ),
        ("dump --case nothing --out /tmp", "possible values"),
        ("lda --probabilities 2", "give it 2^-32 to 1"),
        ("lda --rows 0", "has 0 rows"),
        ("lda --in /nowhere.csv", "/nowhere.csv: cannot be opened"),
        ("rli --capacity-bps 0", "a link of 0 bit/s"),
        ("rli --capacity-bps 1.5", "give a whole number"),
        (
            "decode --cells - --flows -",
            "only one file can be standard input",
        ),
        ("decode --cells a --flows b --components 4", "1..=3"),
        ("", "Usage"),
    ] {
        let errors = refuse(arguments, "");
        assert!(errors.contains(message), "{arguments}: {errors}");
    }
}

#[test]
fn tables_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let results = path(folder.path(), "results");
    let arguments = format!("tables lda --scale 0.01 --seeds 1 --results {results}");
    let output = succeed(&arguments, "");
    assert!(output.contains("No limit applies"), "{output}");
    let json = fs::read(folder.path().join("results/accuracy.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["experiments"][0]["name"], "lda");
    assert_eq!(json["settings"]["seeds"], 1);
    assert_eq!(json["limits"], 0);
    let markdown = fs::read_to_string(folder.path().join("results/accuracy.md")).unwrap();
    assert!(markdown.starts_with("# Accuracy\n"));
}

/// Two flows that share a cell in row 0, and have one each in row 1: 10 packets of 100 ns, 5 of
/// 400 ns. Sums wrap at the sender's end.
const CELLS: &str = "row,col,n_tx,s_tx_ns,d_tx,n_rx,s_rx_ns,d_rx\n\
                     0,0,15,18446744073709551000,0x6,15,2384,6\n\
                     1,0,10,5000,7,10,6000,7\n\
                     1,1,5,1000,1,5,3000,1\n";
const FLOWS: &str = "flow,packets,col_0,col_1\nfast,10,0,0\nslow,5,0,1\n";

#[test]
fn a_small_sketch_is_decoded_as_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let [cells, flows, out] = ["c.csv", "f.csv", "e.csv"].map(|name| path(folder.path(), name));
    fs::write(&cells, CELLS).unwrap();
    fs::write(&flows, FLOWS).unwrap();
    let decode = |cells: &str| format!("decode --cells {cells} --flows {flows} --components 1");
    let arguments = decode(&cells);
    let estimates = succeed(&arguments, "");
    assert!(
        estimates.starts_with("flow,packets,paper_ns,joint_ns,joint_sd_ns,hybrid_ns\nfast,10,")
    );
    // The paper's: the smallest cell of each, alone within 1.1 times its packets.
    assert_eq!(column(&estimates, "paper_ns"), [100.0, 400.0]);
    for (joint, truth) in column(&estimates, "joint_ns")
        .into_iter()
        .zip([100.0, 400.0])
    {
        assert!((joint / truth - 1.0).abs() < 1e-6, "{joint}");
    }
    assert!(
        column(&estimates, "hybrid_ns")
            .iter()
            .all(|mean| mean.is_nan())
    );

    succeed(&format!("{arguments} --out {out}"), "");
    assert_eq!(fs::read_to_string(&out).unwrap(), estimates);
    let from_stdin = decode("-");
    assert_eq!(succeed(&from_stdin, CELLS), estimates);

    // Row 1 spoilt: the paper's estimator has only the shared cell, (1000 + 2000) / 15 = 200.
    let spoilt = CELLS
        .replace(",10,6000,7", ",11,6000,7")
        .replace(",5,3000,1", ",5,,1");
    let estimates = succeed(&from_stdin, &spoilt);
    assert_eq!(column(&estimates, "paper_ns"), [200.0, 200.0]);
}

#[test]
fn files_that_contradict_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [cells, flows, weights] = ["c.csv", "f.csv", "w.csv"].map(|name| path(folder.path(), name));
    fs::write(&cells, CELLS).unwrap();
    fs::write(&flows, FLOWS).unwrap();
    fs::write(&weights, "flow,weight\nnobody,2\n").unwrap();
    let errors = |more: &str| {
        refuse(
            &format!("decode --cells {cells} --flows {flows} {more}"),
            "",
        )
    };
    assert!(errors("--columns 1").contains("the files name column 1; give 2 or more"));
    assert!(errors("--row-probabilities 1").contains("names 2 rows; give one for each"));
    assert!(errors(&format!("--weights {weights}")).contains("nobody is not in the list of flows"));
    fs::write(&flows, "flow,packets,col_0\nfast,10,0\n").unwrap();
    let errors = errors("");
    assert!(errors.contains("c.csv, line 3: row 1, but"), "{errors}");
}

#[test]
fn what_is_dumped_can_be_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let dumped = folder.path().display().to_string();
    succeed(&format!("dump --case small --out {dumped}"), "");
    let [cells, flows] = ["cells.csv", "flows.csv"].map(|name| path(folder.path(), name));
    let estimates = succeed(&format!("decode --cells {cells} --flows {flows}"), "");
    let flows = fs::read_to_string(&flows).unwrap();
    let (truth, packets) = (column(&flows, "true_mean_ns"), column(&flows, "packets"));
    let error = |name: &str| {
        let means = column(&estimates, name);
        assert_eq!(means.len(), truth.len());
        let pairs = means.iter().zip(&truth).zip(&packets);
        let large = pairs.filter(|&(_, &packets)| packets >= 100.0);
        median(
            large
                .map(|((ours, truth), _)| (ours / truth - 1.0).abs())
                .collect(),
        )
    };
    let (paper, joint, hybrid) = (error("paper_ns"), error("joint_ns"), error("hybrid_ns"));
    assert!(paper < 0.1, "{paper}");
    assert!(joint < 0.5 * paper, "{joint} {paper}");
    assert!(hybrid < 0.5 * paper, "{hybrid} {paper}");
}

#[test]
fn lda_prints_json() {
    let lines = (0..1_000).map(|n| {
        let received = if n % 100 == 0 {
            String::new()
        } else {
            (5_000 + n % 2).to_string()
        };
        format!("packet {n},{n},{received}\n")
    });
    // Delays fall by one each nanosecond, and every other packet takes one more.
    let input = format!("packet_id,send_ns,recv_ns\n{}", lines.collect::<String>());
    let arguments = "lda --in - --rows 64 --probabilities 0.5,0.5 --seed 3";
    let output = succeed(arguments, &input);
    let estimate: serde_json::Value = serde_json::from_str(&output).unwrap();
    let number = |name: &str| {
        estimate[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {output}"))
    };
    assert_eq!((number("sent"), number("received")), (1_000.0, 990.0));
    assert!((number("lost_estimate") - 10.0).abs() < 1e-9);
    let truth = number("true_mean_ns");
    assert!((truth - 4_500.5).abs() < 1.0);
    assert!(number("ci98_low_ns") < truth && truth < number("ci98_high_ns"));
    assert!((number("mean_ns") - truth).abs() < 60.0, "{output}");
    assert!(number("effective_samples") > 700.0);
    assert!(number("stddev_ns") > 0.0 && number("stddev_paper_ns") >= 0.0);
    assert_eq!(
        succeed(arguments, &input),
        output,
        "the same seed, the same figures"
    );
}

#[test]
fn rli_interpolates_as_by_hand() {
    // 8 Gb/s: a byte takes a nanosecond. References of 100 bytes at 0 and 1000 with delays 200 and
    // 600; packets of 100 bytes that are received a quarter and half of the way between them, and
    // one that is dropped.
    let input = "kind,flow,bytes,send_ns,recv_ns\n\
                 reference,,100,0,200\n\
                 regular,a,100,250,550\n\
                 cross,x,100,400,800\n\
                 regular,b,200,400,900\n\
                 regular,a,100,500,\n\
                 reference,,100,1000,1600\n";
    let estimates = succeed("rli --capacity-bps 8000000000", input);
    assert!(
        estimates.starts_with(
            "flow,packets,rli_l_ns,rli_ns,rli_s_ns,rli_as_ns,rli_bound_ns,true_ns\na,1,"
        )
    );
    assert_eq!(column(&estimates, "packets"), [1.0, 1.0]);
    assert_eq!(column(&estimates, "true_ns"), [300.0, 500.0]);
    // RLI-L: 200, and 100 more bytes for b.
    assert_eq!(column(&estimates, "rli_l_ns"), [200.0, 300.0]);
    // RLI: on the line from (200, 200) to (1600, 600).
    for (ours, by_hand) in column(&estimates, "rli_ns").into_iter().zip([300.0, 500.0]) {
        assert!((ours - by_hand).abs() < 1e-9, "{estimates}");
    }
}

#[test]
fn rli_without_references_says_so() {
    let input = "kind,flow,bytes,send_ns,recv_ns\nregular,a,100,0,50\n";
    let output = run("rli --capacity-bps 1e9", input);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no reference arrived"));
    let estimates = String::from_utf8(output.stdout).unwrap();
    assert!(estimates.ends_with("a,1,,,,,,50\n"), "{estimates}");
}
