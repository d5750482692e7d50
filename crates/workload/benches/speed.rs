//! How fast requests are made and traces are read: requests and lines per second, and for traces
//! the ratio to merely counting the newlines of the same bytes.

use criterion::{Criterion, Throughput, criterion_group};
use nandlab_workload::pattern::{Amount, Arrival, Order, Pattern, Spec};
use nandlab_workload::trace::{Format, Options, Reader};
use nandlab_workload::{Op, Source};
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

const REQUESTS: u64 = 100_000;

fn specs() -> Vec<(&'static str, Spec)> {
    let base = Spec {
        amount: Amount::Requests(REQUESTS),
        ..Spec::new(64 << 30)
    };
    let order = |order| Spec {
        order,
        ..base.clone()
    };
    vec![
        ("sequential", order(Order::Sequential)),
        ("uniform", base.clone()),
        (
            "uniform-70-reads",
            Spec {
                reads: 0.7,
                ..base.clone()
            },
        ),
        (
            "uniform-poisson",
            Spec {
                arrival: Arrival::Poisson { mean: 1000 },
                ..base.clone()
            },
        ),
        (
            "hot-cold",
            order(Order::HotCold {
                requests: 0.8,
                space: 0.2,
            }),
        ),
        ("zipf-0.99", order(Order::Zipf { theta: 0.99 })),
        ("zipf-0.8", order(Order::Zipf { theta: 0.8 })),
        ("zipf-1.2", order(Order::Zipf { theta: 1.2 })),
    ]
}

fn patterns(c: &mut Criterion) {
    let mut group = c.benchmark_group("pattern");
    group.throughput(Throughput::Elements(REQUESTS));
    for (name, spec) in specs() {
        let pattern = Pattern::new(&spec).expect("a good spec");
        group.bench_function(name, |b| b.iter(|| drain(&mut pattern.clone())));
    }
    group.finish();
}

/// Reads a source to its end through the trait object, as a run does.
fn drain(source: &mut dyn Source) -> u64 {
    let mut sum = 0u64;
    while let Some(request) = source.next().expect("a good stream") {
        sum = sum.wrapping_add(request.offset ^ request.at);
    }
    black_box(sum)
}

fn samples() -> Vec<(&'static str, Format, String)> {
    let mut msr = String::new();
    let mut blkparse = String::new();
    let mut two = String::from("fio version 2 iolog\n");
    let mut three = String::from("fio version 3 iolog\n");
    let mut spc = String::new();
    let spec = Spec {
        amount: Amount::Requests(REQUESTS),
        reads: 0.4,
        arrival: Arrival::Poisson { mean: 50_000 },
        ..Spec::new(64 << 30)
    };
    let mut pattern = Pattern::new(&spec).expect("a good spec");
    let mut number = 0u64;
    while let Some(r) = pattern.draw() {
        number += 1;
        let read = r.op == Op::Read;
        let (word, letter) = if read { ("Read", "R") } else { ("Write", "W") };
        let low = word.to_ascii_lowercase();
        let at = r.at;
        let offset = r.offset;
        let length = r.length;
        let text = "a string takes what is written to it";
        writeln!(
            msr,
            "{},usr,0,{word},{offset},{length},{}",
            128_166_372_003_061_629 + at / 100,
            number * 7919 % 100_000
        )
        .expect(text);
        let seconds = (at / 1_000_000_000, at % 1_000_000_000);
        writeln!(
            blkparse,
            "  8,0   {:2} {number:8} {:5}.{:09} {:5}  Q {letter:>3} {} + {} [fio]",
            number % 8,
            seconds.0,
            seconds.1,
            697,
            offset / 512,
            length / 512
        )
        .expect(text);
        writeln!(two, "/dev/sda {low} {offset} {length}").expect(text);
        writeln!(three, "{} /dev/sda {low} {offset} {length}", at / 1000).expect(text);
        writeln!(
            spc,
            "0,{},{length},{letter},{}.{:06}",
            offset / 512,
            seconds.0,
            seconds.1 / 1000
        )
        .expect(text);
    }
    vec![
        ("msr", Format::Msr, msr),
        ("blkparse", Format::Blkparse, blkparse),
        ("fio-2", Format::Fio, two),
        ("fio-3", Format::Fio, three),
        ("spc", Format::Spc, spc),
    ]
}

fn traces(c: &mut Criterion) {
    let mut group = c.benchmark_group("trace");
    group.throughput(Throughput::Elements(REQUESTS));
    for (name, format, text) in samples() {
        group.bench_function(name, |b| {
            b.iter(|| {
                drain(&mut Reader::new(
                    text.as_bytes(),
                    format,
                    Options::default(),
                ))
            })
        });
    }
    group.finish();
}

/// The best of many runs: what the machine can do, not what its neighbours left over.
fn best(mut run: impl FnMut()) -> Duration {
    let once = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..30).map(|_| once(&mut run)).min().unwrap_or_default()
}

/// One line a pattern: time a request.
fn costs() {
    for (name, spec) in specs() {
        let pattern = Pattern::new(&spec).expect("a good spec");
        let time = best(|| {
            drain(&mut pattern.clone());
        });
        println!(
            "{name:16} {:5.1} ns a request",
            time.as_nanos() as f64 / REQUESTS as f64
        );
    }
}

/// One line a format: time a line, and how many times that of counting newlines.
fn ratios() {
    for (name, format, text) in samples() {
        let parse = best(|| {
            drain(&mut Reader::new(
                text.as_bytes(),
                format,
                Options::default(),
            ));
        });
        let count = best(|| {
            black_box(
                memchr::memchr_iter(b'\n', text.as_bytes())
                    .fold(0u64, |sum, at| sum.wrapping_add(at as u64)),
            );
        });
        let lines = REQUESTS as f64;
        let ns = parse.as_nanos() as f64;
        let ratio = ns / count.as_nanos() as f64;
        println!(
            "{name:9} {:5.1} ns a line, {:5.1} M lines/s, {ratio:4.1} times finding the newlines",
            ns / lines,
            lines / ns * 1e3
        );
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1)).without_plots();
    targets = patterns, traces
}

fn main() {
    benches();
    costs();
    ratios();
}
