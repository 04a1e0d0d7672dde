use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Only {
    #[command(flatten)]
    plan: Plan,
}

/// A line of nine routers.
fn answer(upgrades: &str, arguments: &[&str]) -> Result<Answer, Correctable> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("line.intra");
    let links = (1..9).map(|at| format!("r{at} r{0} 1\nr{0} r{at} 1\n", at + 1));
    fs::write(&file, links.collect::<String>()).unwrap();
    let program = ["plan", "--topology", file.to_str().unwrap()];
    let program = program.into_iter().chain(["--upgrade", upgrades]);
    Answer::of(&Only::parse_from(program.chain(arguments.iter().copied())).plan)
}

fn text(answer: &Answer) -> String {
    Page::plain(false, |page| answer.write(page))
}

#[test]
fn methods_stand_beside_each_other() {
    let text = text(&answer("4", &[]).unwrap());
    let mut lines = text.lines().skip(2);
    let headings = lines.next().unwrap().split_whitespace();
    assert_eq!(headings.count(), 9, "{text}");
    // 8 links, 7 paths of two hops and so on, both directions.
    assert!(lines.next().unwrap().starts_with("0 "), "{text}");
    assert!(lines.next().unwrap().contains(" r5 "), "{text}");
    assert_eq!(lines.clone().take_while(|line| !line.is_empty()).count(), 3);
    assert!(
        text.contains("random: the median of 11 orders; with 4 upgrades"),
        "{text}"
    );
}

#[test]
fn a_method_alone_shows_all_its_figures() {
    let answer = answer("2", &["--method", "greedy"]).unwrap();
    let text = text(&answer);
    assert!(
        text.contains("\n0                        240        72  3.33      1         8\n"),
        "{text}"
    );
    assert!(answer.plans[0].orders.is_none());
    assert_eq!(answer.plans[0].steps[1].router.as_deref(), Some("r5"));
}

#[test]
fn the_seed_is_that_of_random_orders_alone() {
    let json = |seed| {
        let answer = answer("3", &["--seed", seed]).unwrap();
        answer
            .plans
            .iter()
            .map(|course| serde_json::to_value(&course.steps).unwrap())
            .collect::<Vec<_>>()
    };
    let (one, two) = (json("1"), json("2"));
    assert_eq!(one, json("1"));
    assert_eq!(one[..2], two[..2]);
    assert_ne!(one[2], two[2]);
}

#[test]
fn figures_have_a_line_for_each_method() {
    for upgrades in ["0", "9"] {
        let svg = figure::svg(&answer(upgrades, &[]).unwrap()).unwrap();
        for word in ["greedy", "search", "random", "probe hops"] {
            assert!(svg.contains(word), "{word}");
        }
    }
}

#[test]
fn there_are_not_more_upgrades_than_routers() {
    let error = answer("10", &[]).unwrap_err().to_string();
    assert!(
        error.starts_with("--upgrade 10: expected at most 9, the routers of "),
        "{error}"
    );
}
