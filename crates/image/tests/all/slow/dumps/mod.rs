//! Dumps with spare bytes that the real kernel made on simulated chips.

mod cell;
mod guests;

use cell::{Cell, Code};

#[test]
fn fixtures() {
    for code in [Code::Hamming, Code::Bch(4), Code::Bch(8)] {
        let dumps = guests::dumps(&Cell::all(code));
        for dump in &dumps {
            std::fs::write(format!("/tmp/wc/{}", dump.cell), &dump.bytes).unwrap();
            println!(
                "{} {:?}",
                dump.cell,
                dump.truth.as_ref().map(|t| (t.tree.len(), &t.volumes))
            );
        }
    }
}
