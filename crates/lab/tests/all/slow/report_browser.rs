//! The report in a real browser: it draws, in its own colours, in light, dark and on paper, and its
//! script works.

use crate::report_fixture;
use nandlab_lab::report;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const WIDTH: u32 = 1280;
/// More than the page is tall.
const HEIGHT: u32 = 5800;

/// A page on disk and what a browser makes of it.
struct Browser {
    folder: tempfile::TempDir,
}

impl Browser {
    fn open(page: &str) -> Browser {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("page.html"), page).expect("the page is written");
        Browser { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs chromium with `flags` on the page; returns what it printed.
    fn run(&self, flags: &[&str]) -> String {
        let out = self.path("stdout");
        let file =
            |path: &Path| Stdio::from(std::fs::File::create(path).expect("a file for output"));
        let mut child = Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
            ])
            .args([
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
            ])
            .arg(format!("--window-size={WIDTH},{HEIGHT}"))
            .arg(format!(
                "--user-data-dir={}",
                self.path("profile").display()
            ))
            .args(flags)
            .arg(format!("file://{}", self.path("page.html").display()))
            .stdout(file(&out))
            .stderr(file(&self.path("stderr")))
            .spawn()
            .expect("this test needs a browser: install Debian's package `chromium`");
        let deadline = Instant::now() + Duration::from_secs(120);
        let status = loop {
            match child.try_wait().expect("chromium can be waited for") {
                Some(status) => break status,
                None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(50)),
                None => {
                    child.kill().expect("chromium can be stopped");
                    panic!(
                        "chromium {flags:?} did not end within two minutes: {}",
                        self.complaints()
                    );
                }
            }
        };
        assert!(
            status.success(),
            "chromium {flags:?}: {status}: {}",
            self.complaints()
        );
        std::fs::read_to_string(out).expect("what chromium printed is text")
    }

    fn complaints(&self) -> String {
        std::fs::read_to_string(self.path("stderr")).unwrap_or_default()
    }

    /// The page as pixels, RGB.
    fn screenshot(&self, flags: &[&str]) -> Vec<[u8; 3]> {
        let target = self.path("page.png");
        let shot = format!("--screenshot={}", target.display());
        self.run(&[flags, &[&shot]].concat());
        let file = std::io::BufReader::new(
            std::fs::File::open(&target).expect("chromium wrote the screenshot"),
        );
        let mut reader = png::Decoder::new(file)
            .read_info()
            .expect("the screenshot is a PNG");
        let mut bytes = vec![0; reader.output_buffer_size().expect("of known size")];
        let info = reader.next_frame(&mut bytes).expect("the PNG is whole");
        assert_eq!((info.width, info.height), (WIDTH, HEIGHT));
        bytes[..info.buffer_size()]
            .chunks(info.color_type.samples())
            .map(|pixel| [pixel[0], pixel[1], pixel[2]])
            .collect()
    }
}

fn page() -> String {
    let (runs, costs) = report_fixture::comparison();
    report::html("SSD of eight dies against a single chip", &runs, &costs)
}

/// Asserts that each colour covers a share of the picture, in parts per million, between two
/// bounds.
fn expect_colours(pixels: &[[u8; 3]], expected: &[(&str, u32, u64, u64)]) {
    for &(what, colour, least, most) in expected {
        let rgb = [(colour >> 16) as u8, (colour >> 8) as u8, colour as u8];
        let share = pixels.iter().filter(|&&pixel| pixel == rgb).count() as u64 * 1_000_000
            / pixels.len() as u64;
        assert!(
            (least..=most).contains(&share),
            "{what} (#{colour:06x}): {share} ppm of the picture, expected {least} to {most}"
        );
    }
}

#[test]
fn it_draws_in_its_colours_by_day_and_by_night() {
    let browser = Browser::open(&page());
    let day = browser.screenshot(&[]);
    let bars = [
        ("host data", 0x77aadd, 3_000, 8_000),
        ("collection", 0xee8866, 2_500, 6_000),
        ("mapping", 0xeedd88, 400, 1_500),
    ];
    expect_colours(&day, &bars);
    let ink = [
        ("paper", 0xfdfdfc, 750_000, 920_000),
        ("first run", 0x0072b2, 400, 4_000),
        ("second run", 0xc65102, 300, 4_000),
    ];
    expect_colours(&day, &ink);
    expect_colours(
        &day,
        &[
            ("least worn", 0xfff2cf, 6_000, 15_000),
            ("most valid", 0x0a3440, 7_000, 16_000),
        ],
    );
    let night = browser.screenshot(&["--blink-settings=preferredColorScheme=0"]);
    expect_colours(&night, &bars);
    let ink = [
        ("paper", 0x15181c, 750_000, 920_000),
        ("first run", 0x56a8e0, 400, 4_000),
        ("second run", 0xf0843c, 300, 4_000),
    ];
    expect_colours(&night, &ink);
}

#[test]
fn nothing_is_missing_from_what_the_browser_built() {
    let dom = Browser::open(&page()).run(&["--dump-dom"]);
    assert!(
        dom.contains("data-script=\"ready\"") && !dom.contains("data-error"),
        "the script ran to its end without an error"
    );
    let charts: Vec<&str> = dom
        .split("<svg class=\"chart ")
        .skip(1)
        .map(|rest| rest.split("</svg>").next().unwrap_or_default())
        .collect();
    assert_eq!(charts.len(), 16);
    for chart in charts {
        let marks = [
            "class=\"line\"",
            "class=\"band\"",
            "class=\"k",
            "class=\"wear",
            "class=\"valid",
        ];
        assert!(
            marks.iter().any(|mark| chart.contains(mark)),
            "a chart without marks: {}",
            &chart[..chart.len().min(300)]
        );
        assert!(
            chart.contains("<desc>") && chart.contains("<text"),
            "a chart without words: {}",
            &chart[..chart.len().min(300)]
        );
    }
    let shown = &dom[dom.find("<main>").expect("a body")..dom.find("<script>").expect("a script")];
    for odd in ["NaN", "inf", "undefined", "Infinity"] {
        assert!(!shown.contains(odd), "{odd} in the page");
    }
}

#[test]
fn pointing_at_a_plot_reads_out_every_run() {
    let probe = "<script>const plot = document.querySelector('svg.plot'), box = plot.getBoundingClientRect();\
                 plot.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + 400, clientY: box.top + 100 }));</script></body>";
    let dom = Browser::open(&page().replace("</body>", probe)).run(&["--dump-dom"]);
    let tip = dom
        .split("<div class=\"tip\"")
        .nth(1)
        .and_then(|rest| rest.split("</div>").next())
        .expect("the read-out exists");
    assert!(!tip.contains("hidden"), "the read-out shows: {tip}");
    for text in ["ssd-8-dies: ", "slc-1-die: ", "MB/s at "] {
        assert!(tip.contains(text), "{text:?} is not in the read-out {tip}");
    }
    assert!(!dom.contains("data-error"));
}

#[test]
fn hostile_names_run_nothing() {
    let (mut runs, _) = report_fixture::comparison();
    runs[0].name = "<img src=x onerror=\"document.documentElement.dataset.error='run'\">".into();
    let dom = Browser::open(&report::html(&runs[0].name, &runs, &[])).run(&["--dump-dom"]);
    assert!(
        dom.contains("data-script=\"ready\"")
            && !dom.contains("data-error")
            && !dom.contains("<img")
    );
}

#[test]
fn it_prints() {
    let browser = Browser::open(&page());
    let target = browser.path("page.pdf");
    browser.run(&[
        "--no-pdf-header-footer",
        &format!("--print-to-pdf={}", target.display()),
    ]);
    let pdf = std::fs::read(target).expect("chromium wrote the PDF");
    let pages = pdf
        .windows(11)
        .filter(|window| window == b"/Type /Page")
        .count();
    assert!(
        pdf.starts_with(b"%PDF-") && (3..=12).contains(&pages),
        "{pages} pages, {} bytes",
        pdf.len()
    );
}
