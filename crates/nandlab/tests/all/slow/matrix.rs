//! The matrix that comes along, some states of each cell, and the book's table of them.

use crate::command::Lab;

const PAGE: &str = include_str!("../../../../../docs/matrix.md");

#[test]
fn our_matrix_survives_some_cuts_of_each_cell() {
    let lab = Lab::new();
    let args = ["crash", "--matrix", "--cuts", "8", "--second", "30"];
    let (table, _) = lab.exits(0, &args);
    assert!(distinct(&table) >= 2500, "{table}");
}

#[test]
#[ignore = "takes minutes: `cargo xtask test whole` runs it"]
fn our_matrix_survives_its_cuts_and_the_book_shows_its_table() {
    let lab = Lab::new();
    let args = ["crash", "--matrix", "--cuts", "25", "--second", "30"];
    let (table, _) = lab.exits(0, &args);
    assert!(distinct(&table) >= 20_000, "{table}");
    assert!(
        PAGE.contains(&table),
        "docs/matrix.md does not show what `nandlab {}` prints:\n{table}",
        args.join(" ")
    );
}

/// The distinct states of all cells, in the last line of a table.
fn distinct(table: &str) -> u64 {
    let sum = table.lines().last().unwrap();
    let distinct = sum.split(", ").nth(1);
    let distinct = distinct.and_then(|part| part.split(' ').next());
    distinct.unwrap().parse().unwrap()
}
