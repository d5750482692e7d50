//! Results for the terminal: one column a run, the figures of a run below each other.

use crate::report::number::{Quantity, grouped};
use crate::result::{FlashRow, RunResult, Setting};
use crate::run::Outcome;
use comfy_table::{Cell, CellAlignment, LineStyle, Table, presets};

/// Runs side by side.
pub fn compare(outcomes: &[Outcome]) -> String {
    let mut rows = Rows {
        runs: outcomes,
        table: plain(),
    };
    let names = outcomes
        .iter()
        .map(|outcome| Cell::new(&outcome.result.name).set_alignment(CellAlignment::Right));
    rows.table
        .set_header(std::iter::once(Cell::new("")).chain(names));
    for (operation, several) in [
        ("read", "reads"),
        ("write", "writes"),
        ("flush", "flushes"),
        ("discard", "discards"),
    ] {
        rows.operation(operation, several);
    }
    rows.flash();
    rows.cost();
    finish(&rows.table)
}

/// Every setting with its origin.
pub fn settings(settings: &[Setting]) -> String {
    let mut table = plain();
    table.set_header(["setting", "value", "origin"]);
    settings.iter().for_each(|setting| {
        table.add_row([&setting.key, &setting.value, &setting.origin]);
    });
    finish(&table)
}

/// A table of words under headings.
pub fn words<const N: usize>(
    heads: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = plain();
    table.set_header(heads);
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    finish(&table)
}

/// Rows under headings: names to the left, columns of numbers to the right.
pub fn rows(heads: &[String], rows: &[Vec<String>]) -> String {
    let mut table = plain();
    let numbers: Vec<bool> = (0..heads.len())
        .map(|at| at > 0 && rows.iter().filter_map(|row| row.get(at)).all(is_number))
        .collect();
    let line = |row: &[String]| -> Vec<Cell> {
        let side = |right: bool| {
            if right {
                CellAlignment::Right
            } else {
                CellAlignment::Left
            }
        };
        row.iter()
            .zip(&numbers)
            .map(|(text, right)| Cell::new(plain_spaces(text.clone())).set_alignment(side(*right)))
            .collect()
    };
    table.set_header(line(heads));
    rows.iter().for_each(|row| {
        table.add_row(line(row));
    });
    finish(&table)
}

fn is_number(text: &String) -> bool {
    let first = text.chars().next();
    text == "-" || first.is_some_and(|c| c.is_ascii_digit() || "+-.".contains(c))
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
    table
}

/// Without the blanks that fill up lines.
fn finish(table: &Table) -> String {
    table
        .to_string()
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

struct Rows<'a> {
    runs: &'a [Outcome],
    table: Table,
}

impl Rows<'_> {
    /// A row, unless no run has the value.
    fn row(&mut self, name: &str, value: impl Fn(&Outcome) -> Option<String>) {
        let values: Vec<Option<String>> = self.runs.iter().map(value).collect();
        if values.iter().any(Option::is_some) {
            let cells = values.into_iter().map(|value| {
                Cell::new(value.unwrap_or("-".into())).set_alignment(CellAlignment::Right)
            });
            self.table
                .add_row(std::iter::once(Cell::new(name)).chain(cells));
        }
    }

    fn operation(&mut self, operation: &str, several: &str) {
        let row = |outcome: &Outcome| outcome.result.operation(operation).cloned();
        self.row(several, |o| row(o).map(|r| plain_spaces(grouped(r.count))));
        self.row(&format!("{operation} throughput"), |o| {
            row(o)
                .filter(|r| r.bytes > 0)
                .and_then(|r| o.result.per_second(r.bytes))
                .map(|v| write(Quantity::Rate, v))
        });
        self.row(&format!("{several} per second"), |o| {
            row(o)
                .and_then(|r| o.result.per_second(r.count))
                .map(|v| write(Quantity::Count, v))
        });
        self.row(&format!("{operation} latency p50 / p99"), |o| {
            row(o).map(|r| pair(r.latency.p50_ns, r.latency.p99_ns))
        });
        self.row(&format!("{operation} latency p99.9 / max"), |o| {
            row(o).map(|r| pair(r.latency.p999_ns, r.latency.max_ns))
        });
    }

    fn flash(&mut self) {
        let factor = |value: Option<f64>| value.map(|v| write(Quantity::Factor, v));
        self.row("write amplification", |o| {
            factor(o.result.flash.write_amplification)
        });
        self.row("without mapping", |o| {
            factor(o.result.flash.collection_amplification)
        });
        type Pick = fn(&FlashRow) -> u64;
        let totals: [(&str, Pick); 4] = [
            ("page reads", |r| r.reads),
            ("page programs", |r| r.programs),
            ("page copies", |r| r.copies),
            ("block erases", |r| r.erases),
        ];
        for (name, pick) in totals {
            self.row(name, |o| {
                Some(plain_spaces(grouped(o.result.flash.total(pick))))
            });
        }
        let m = |o: &Outcome| o.result.flash.merges;
        let merges = |o: &Outcome| [m(o).switch, m(o).partial, m(o).full];
        let folds = |o: &Outcome| [m(o).folds_in_place, m(o).folds_elsewhere];
        let list = |counts: &[u64]| {
            let words: Vec<String> = counts
                .iter()
                .map(|count| plain_spaces(grouped(*count)))
                .collect();
            counts
                .iter()
                .any(|count| *count > 0)
                .then(|| words.join(" / "))
        };
        self.row("merges: switch / partial / full", |o| list(&merges(o)));
        self.row("folds: in place / elsewhere", |o| list(&folds(o)));
        self.map_cache();
        self.write_cache();
        self.slc_cache();
        let busy = |run: &RunResult| {
            run.flash.die_busy.iter().sum::<f64>() / run.flash.die_busy.len().max(1) as f64
        };
        self.row("dies busy", |o| {
            Some(write(Quantity::Share, busy(&o.result)))
        });
        let some = |count: u64| (count > 0).then(|| plain_spaces(grouped(count)));
        self.row("bits corrected", |o| some(o.result.flash.corrected_bits));
        self.row("reads beyond correction", |o| {
            some(o.result.flash.uncorrectable)
        });
        self.row("bad blocks", |o| {
            some(o.result.chip.bad.iter().map(|&bad| u64::from(bad)).sum())
        });
        self.row("erase counts, least / mean / most", |o| {
            let wear = &o.result.flash.wear;
            Some(format!(
                "{} / {} / {}",
                wear.min,
                write(Quantity::Factor, wear.mean),
                wear.max
            ))
        });
        self.row("lifetime, host data", |o| {
            o.result
                .flash
                .lifetime_bytes
                .map(|v| write(Quantity::Bytes, v as f64))
        });
        self.row("requests refused", |o| some(o.result.host.failed));
    }

    fn map_cache(&mut self) {
        let cache = |o: &Outcome| o.result.flash.map_cache;
        self.row("map cache hit rate", |o| {
            cache(o).map(|cache| write(Quantity::Share, cache.hit_rate()))
        });
        self.row("map cache: hits / misses / write-backs", |o| {
            cache(o).map(|cache| {
                let counts = [cache.hits, cache.misses, cache.write_backs];
                counts.map(|n| plain_spaces(grouped(n))).join(" / ")
            })
        });
    }

    fn write_cache(&mut self) {
        let cache = |o: &Outcome| o.result.flash.write_cache;
        self.row("write cache: written / absorbed / written back", |o| {
            cache(o).map(|cache| {
                let counts = [cache.written, cache.absorbed, cache.written_back];
                counts.map(|n| plain_spaces(grouped(n))).join(" / ")
            })
        });
        self.row("flushes: of the host / below the cache", |o| {
            cache(o).map(|cache| {
                let counts = [cache.flushes, cache.flushes_below];
                counts.map(|n| plain_spaces(grouped(n))).join(" / ")
            })
        });
    }

    fn slc_cache(&mut self) {
        let cache = |o: &Outcome| o.result.flash.slc_cache;
        self.row("SLC cache: pages in / past it / folded", |o| {
            cache(o).map(|cache| {
                let counts = [cache.buffered, cache.direct, cache.folded];
                counts.map(|n| plain_spaces(grouped(n))).join(" / ")
            })
        });
        self.row("erases into SLC mode", |o| {
            cache(o).map(|cache| plain_spaces(grouped(cache.erases)))
        });
    }

    fn cost(&mut self) {
        let requests = |o: &Outcome| {
            o.result
                .host
                .operations
                .iter()
                .map(|row| row.count)
                .sum::<u64>()
                + o.result.host.failed
        };
        self.row("simulated time", |o| {
            Some(write(Quantity::Nanoseconds, o.result.simulated_ns as f64))
        });
        self.row("wall time", |o| {
            Some(write(Quantity::Nanoseconds, o.cost.wall_s * 1e9))
        });
        self.row("requests per wall second", |o| {
            Some(write(
                Quantity::Count,
                requests(o) as f64 / o.cost.wall_s.max(1e-9),
            ))
        });
        self.row("peak memory", |o| {
            Some(write(Quantity::Memory, o.cost.peak_bytes as f64))
        });
    }
}

fn pair(first_ns: u64, second_ns: u64) -> String {
    format!(
        "{} / {}",
        write(Quantity::Nanoseconds, first_ns as f64),
        write(Quantity::Nanoseconds, second_ns as f64)
    )
}

fn write(quantity: Quantity, value: f64) -> String {
    plain_spaces(quantity.write(value))
}

/// Terminals are not sure how wide a narrow no-break space is.
fn plain_spaces(text: String) -> String {
    text.replace('\u{202f}', " ")
}
