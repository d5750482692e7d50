//! The matrix that comes along, some states of each cell, and the book's table of them.

use crate::command::Lab;

const PAGE: &str = include_str!("../../../../../docs/matrix.md");

#[test]
fn our_matrix_survives_its_cuts_and_the_book_shows_its_table() {
    let lab = Lab::new();
    let args = ["crash", "--matrix", "--cuts", "25", "--second", "30"];
    let (table, _) = lab.exits(0, &args);
    let sum = table.lines().last().unwrap();
    let distinct = sum
        .split(", ")
        .nth(1)
        .and_then(|part| part.split(' ').next());
    let distinct: u64 = distinct.unwrap().parse().unwrap();
    assert!(distinct >= 20_000, "{sum}");
    assert!(
        PAGE.contains(&table),
        "docs/matrix.md does not show what `nandlab {}` prints:\n{table}",
        args.join(" ")
    );
}
