//! Many stacks at once: a matrix of descriptions, each a choice of every axis.
//!
//! ```toml
//! [axis.layer."page"]
//! ftl.scheme = "page"
//!
//! [axis.layer."FAST"]
//! ftl.scheme = "fast"
//!
//! [[product]]
//! axes = ["layer"]
//! base.chip.preset = "slc-2k"
//! base.workload.requests = 100
//! ```
//!
//! A product has a cell for each combination of its axes' choices. The keys of a choice replace
//! those of the axes before it, and of the base.

use nandlab_stack::{DescriptionError, Document};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};

/// The matrix that comes along: our file systems on our layers.
pub const OURS: &str = include_str!("../../../../matrices/stacks.toml");

/// More cells are no matrix that anybody meant.
const MOST_CELLS: usize = 100_000;

/// A matrix of described experiments.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Its cells, in the order of the products and of their choices' names.
    pub cells: Vec<Cell>,
}

/// One experiment of a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The choices, as in `ext2, FAST, mixed`.
    pub name: String,
    /// The description in TOML.
    pub text: String,
}

/// Text that is no matrix.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// The text is not the description of a matrix.
    #[error("{file}: {why}")]
    Syntax {
        /// The file that it came from.
        file: String,
        /// The place, and what is wrong there.
        why: String,
    },
    /// A product names an axis that is not there.
    #[error(
        "{file}: product[{product}].axes: found \"{found}\", expected a table `axis.{found}`, or one of: {known}"
    )]
    Axis {
        /// The file that it came from.
        file: String,
        /// The number of the product, from 0.
        product: usize,
        /// The unknown name.
        found: String,
        /// The axes that are there.
        known: String,
    },
    /// There are too many combinations.
    #[error("{file}: product[{product}]: found {cells} cells, expected {MOST_CELLS} at most")]
    Cells {
        /// The file that it came from.
        file: String,
        /// The number of the product, from 0.
        product: usize,
        /// Its combinations.
        cells: usize,
    },
    /// Two cells have one name.
    #[error("{file}: found two cells `{cell}`, expected names that differ")]
    Twice {
        /// The file that it came from.
        file: String,
        /// The name of both.
        cell: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    axis: BTreeMap<String, Axis>,
    product: Vec<Product>,
}

/// The choices of an axis by their names, each with its keys.
type Axis = BTreeMap<String, Table>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Product {
    axes: Vec<String>,
    #[serde(default)]
    base: Table,
}

impl Matrix {
    /// Reads a matrix from text. Errors name `file`.
    pub fn parse(file: &str, text: &str) -> Result<Self, MatrixError> {
        let written: Written = toml::from_str(text).map_err(|error| MatrixError::Syntax {
            file: file.into(),
            why: error.to_string().trim_end().to_owned(),
        })?;
        let mut cells = Vec::new();
        for (number, product) in written.product.iter().enumerate() {
            let axes = product
                .axes
                .iter()
                .map(|name| find(&written.axis, name, file, number));
            let axes = axes.collect::<Result<Vec<&Axis>, _>>()?;
            cells.extend(combinations(&product.base, &axes, file, number)?);
        }
        let mut names: Vec<&str> = cells.iter().map(|cell| &*cell.name).collect();
        names.sort_unstable();
        if let Some(two) = names.windows(2).find(|two| two[0] == two[1]) {
            return Err(MatrixError::Twice {
                file: file.into(),
                cell: two[0].into(),
            });
        }
        Ok(Self { cells })
    }
}

impl Cell {
    /// The description, with `overrides` (`section.key=value`) over it. Errors name the cell; paths
    /// are relative to `directory`.
    pub fn document(
        &self,
        directory: &Path,
        overrides: &[String],
    ) -> Result<Document, DescriptionError> {
        Document::parse(&self.name, directory, &self.text, overrides)
    }
}

fn find<'a>(
    axes: &'a BTreeMap<String, Axis>,
    name: &str,
    file: &str,
    product: usize,
) -> Result<&'a Axis, MatrixError> {
    axes.get(name).ok_or_else(|| MatrixError::Axis {
        file: file.into(),
        product,
        found: name.into(),
        known: axes.keys().cloned().collect::<Vec<_>>().join(", "),
    })
}

/// A cell for each combination of choices, the last axis fastest.
fn combinations<'a>(
    base: &Table,
    axes: &[&'a Axis],
    file: &str,
    product: usize,
) -> Result<Vec<Cell>, MatrixError> {
    let sizes = axes.iter().map(|axis| axis.len());
    let cells = sizes.fold(1_usize, usize::saturating_mul);
    if cells > MOST_CELLS {
        let file = file.into();
        return Err(MatrixError::Cells {
            file,
            product,
            cells,
        });
    }
    let mut combined = vec![(Vec::new(), base.clone())];
    for axis in axes {
        let chosen = |(names, keys): &(Vec<&'a str>, Table)| -> Vec<_> {
            let with = |(name, choice): (&'a String, &Table)| {
                let mut keys = keys.clone();
                lay_over(&mut keys, choice);
                let names = names.iter().copied();
                (names.chain([&**name]).collect(), keys)
            };
            axis.iter().map(with).collect()
        };
        combined = combined.iter().flat_map(chosen).collect();
    }
    let cell = |(names, keys): (Vec<&str>, Table)| Cell {
        name: names.join(", "),
        text: toml::to_string(&keys).expect("what was read can be written"),
    };
    Ok(combined.into_iter().map(cell).collect())
}

/// Merges tables, and replaces everything else.
fn lay_over(keys: &mut Table, over: &Table) {
    for (name, value) in over {
        match (keys.get_mut(name), value) {
            (Some(Value::Table(below)), Value::Table(over)) => lay_over(below, over),
            _ => {
                keys.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;
    use crate::cut::Prepared;

    const SMALL: &str = r#"
        [axis.layer."page"]
        ftl.scheme = "page"
        [axis.layer."BAST"]
        ftl.scheme = "bast"
        chip.blocks = 32
        [axis.work."random"]
        workload.pattern = "random"
        [axis.work."in order"]
        workload.pattern = "sequential"
        [[product]]
        axes = ["layer", "work"]
        base.chip = { preset = "slc-2k", blocks = 64 }
    "#;

    fn error(text: &str) -> String {
        Matrix::parse("m.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_product_has_each_combination_once_and_later_keys_win() {
        let matrix = Matrix::parse("m.toml", SMALL).unwrap();
        let names: Vec<&str> = matrix.cells.iter().map(|cell| &*cell.name).collect();
        let expected = [
            "BAST, in order",
            "BAST, random",
            "page, in order",
            "page, random",
        ];
        assert_eq!(names, expected);
        let blocks = |cell: &Cell| {
            toml::from_str::<Table>(&cell.text).unwrap()["chip"]["blocks"].as_integer()
        };
        assert_eq!(blocks(&matrix.cells[0]), Some(32));
        assert_eq!(blocks(&matrix.cells[3]), Some(64));
    }

    #[test]
    fn a_bad_matrix_is_refused_with_its_place() {
        let cases = [
            (
                "product = 3",
                "m.toml: TOML parse error at line 1, column 11",
            ),
            (
                "[[product]]\naxes = [\"layers\"]\n[axis.layer]\n",
                "product[0].axes: found \"layers\", expected",
            ),
            (
                "[[product]]\naxes = []\n[[product]]\naxes = []\n",
                "found two cells ``",
            ),
            ("[[product]]\naxes = []\nbse = 1\n", "unknown field `bse`"),
        ];
        for (text, expected) in cases {
            let found = error(text);
            assert!(found.contains(expected), "{text}: {found}");
        }
        let many = format!(
            "[axis.a]\n{}[[product]]\naxes = [\"a\", \"a\", \"a\"]\n",
            (0..100)
                .map(|i| format!("c{i} = {{}}\n"))
                .collect::<String>()
        );
        assert!(
            error(&many).contains("found 1000000 cells"),
            "{}",
            error(&many)
        );
    }

    #[test]
    fn every_cell_of_ours_can_be_explored() {
        let matrix = Matrix::parse("ours", OURS).unwrap();
        assert!(matrix.cells.len() >= 100, "{}", matrix.cells.len());
        for cell in &matrix.cells {
            let document = cell.document(Path::new(""), &[]);
            let experiment = document.and_then(Experiment::take);
            let experiment = experiment.unwrap_or_else(|error| panic!("{}: {error}", cell.name));
            if let Err(error) = Prepared::new(&experiment, 10) {
                panic!("{}: {error}", cell.name);
            }
        }
    }
}
