//! Write amplification under uniform random writes agrees with theory: the closed form for uniform
//! load, 1/(1 + W(-a e^-a)/a) with a the physical over the logical space; and the correction for
//! finite blocks under greedy collection (Desnoyers, "Analytic modeling of SSD write performance",
//! SYSTOR 2012).

use nandlab_lab::{Experiment, run};
use nandlab_stack::Document;
use std::path::Path;

/// The principal branch of Lambert's function, for -1/e < x < 0, by Newton's method.
fn lambert(x: f64) -> f64 {
    (0..100).fold(-0.5, |w: f64, _| {
        let e = w.exp();
        let f = w * e - x;
        w - f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0))
    })
}

fn uniform(a: f64) -> f64 {
    1.0 / (1.0 + lambert(-a * (-a).exp()) / a)
}

fn greedy(a: f64, pages_per_block: f64) -> f64 {
    let c = (1.0 + 0.5 / pages_per_block) * a;
    let x0 = 0.5 - pages_per_block / a * lambert(-c * (-c).exp());
    pages_per_block / (pages_per_block - (x0 - 1.0))
}

fn measured(over_provisioning: f64) -> f64 {
    let text = format!(
        "[chip]\npreset = \"slc-2k\"\npage = 4096\noob = 15\npages-per-block = 256\nblocks = 4096\npartial-programs = 1\ncontents = \"dropped\"\n\
         [ftl]\nover-provisioning = {over_provisioning}\nwear-threshold = 0\n\
         [workload]\npattern = \"random\"\nblock = \"4 KiB\"\noverwrites = 8\n[run]\nprecondition = \"random\"\nmeasure-from = \"steady\"\n"
    );
    let document = Document::parse("closed form", Path::new("."), &text, &[]).unwrap();
    let outcome = run(&Experiment::take(document).unwrap(), &mut |_| {}).unwrap();
    assert!(!outcome.problem, "{:?}", outcome.notes);
    outcome.result.flash.collection_amplification.unwrap()
}

#[test]
fn the_formulas_give_their_known_values() {
    assert!((uniform(1.0 / 0.875) - 4.182).abs() < 0.001);
    assert!((uniform(1.07) - 7.817).abs() < 0.001);
    assert!(
        (greedy(1.07, 1e9) - uniform(1.07)).abs() < 0.001,
        "without the correction both are the same"
    );
}

#[test]
fn uniform_writes_amplify_as_the_closed_form_says() {
    for spare in [0.28, 0.5] {
        let seen = measured(spare);
        let theory = uniform(1.0 + spare);
        assert!(
            (seen / theory - 1.0).abs() < 0.02,
            "spare {spare}: {seen} measured, {theory} in theory"
        );
        // Some blocks are open, free or hold the map; with them taken off the spare space, the
        // finite-block form must not lie far either.
        let finite = greedy(1.0 + spare, 256.0);
        assert!(
            (seen / finite - 1.0).abs() < 0.02,
            "spare {spare}: {seen} measured, {finite} for finite blocks"
        );
    }
}
