//! The NBD server against qemu's client, over Unix sockets and TCP.

use crate::common::{MIB, expect_success, pattern, ram::Probe, ram_disk, text};
use nandlab_host::nbd::{Address, Options, Server};
use std::{path::Path, sync::Arc, thread};

const PACKAGE: &str = "qemu-utils";

/// A server and what qemu calls it.
struct Bench {
    server: Server,
    probe: Arc<Probe>,
    uri: String,
    dir: tempfile::TempDir,
}

impl Bench {
    fn new(sector: u32, tcp: bool) -> Self {
        let (disk, probe) = ram_disk(sector, 8 * MIB);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let address = if tcp {
            "127.0.0.1:0".parse().unwrap()
        } else {
            Address::Unix(path.clone())
        };
        let server = Server::start(disk, &address, Options::default()).unwrap();
        let uri = if tcp {
            format!("nbd://{}/nandlab", server.address())
        } else {
            format!("nbd+unix:///nandlab?socket={}", text(&path))
        };
        Self {
            server,
            probe,
            uri,
            dir,
        }
    }

    fn all_kinds() -> impl Iterator<Item = Self> {
        [(512, false), (4096, false), (512, true), (4096, true)]
            .into_iter()
            .map(|(sector, tcp)| Self::new(sector, tcp))
    }

    /// Runs qemu-io commands in one connection; each must succeed, and each pattern be found.
    fn qemu_io(&self, commands: &[&str]) {
        let mut arguments = vec!["-f", "raw", "-t", "none", "-d", "unmap"];
        commands
            .iter()
            .for_each(|command| arguments.extend(["-c", command]));
        arguments.push(&self.uri);
        let printed = expect_success(PACKAGE, "qemu-io", &arguments);
        assert!(!printed.contains("failed"), "{printed}");
    }
}

#[test]
fn qemu_io_finds_what_it_wrote_zeroed_and_discarded() {
    for bench in Bench::all_kinds() {
        bench.qemu_io(&[
            "write -P 0x5a 0 8M",
            "write -P 0xa5 1M 64k",
            "write -P 0x11 12345 6789",
            "flush",
        ]);
        bench.qemu_io(&[
            "read -P 0x5a 0 12345",
            "read -P 0x11 12345 6789",
            "read -P 0xa5 1M 64k",
            "write -z 1M 4k",
            "write -z -u 2M 1M",
            "discard 4M 1M",
        ]);
        bench.qemu_io(&[
            "read -P 0 1M 4k",
            "read -P 0xa5 1028k 60k",
            "read -P 0 2M 1M",
            "read -P 0 4M 1M",
            "read -P 0x5a 5M 3M",
        ]);
        assert!(bench.probe.discards() >= 2, "write -z -u and discard");
        bench.server.stop().unwrap();
    }
}

#[test]
fn qemus_flush_and_forced_unit_access_reach_the_device() {
    let bench = Bench::new(512, false);
    let before = bench.probe.flushes();
    bench.qemu_io(&["write -f -P 1 0 4k"]);
    let forced = bench.probe.flushes();
    assert!(forced > before);
    bench.qemu_io(&["write -P 1 0 4k", "flush"]);
    assert!(bench.probe.flushes() > forced);
}

#[test]
fn qemu_img_copies_an_image_in_and_finds_it_equal() {
    for bench in Bench::all_kinds() {
        let image = bench.dir.path().join("image");
        let mut content = pattern(1, 8 * MIB as usize);
        content[MIB as usize..3 * MIB as usize].fill(0);
        std::fs::write(&image, &content).unwrap();
        let uri = bench.uri.as_str();
        expect_success(
            PACKAGE,
            "qemu-img",
            &["convert", "-n", "-f", "raw", "-O", "raw", text(&image), uri],
        );
        expect_success(
            PACKAGE,
            "qemu-img",
            &["compare", "-f", "raw", "-F", "raw", text(&image), uri],
        );
        let back = bench.dir.path().join("back");
        expect_success(
            PACKAGE,
            "qemu-img",
            &["convert", "-f", "raw", "-O", "raw", uri, text(&back)],
        );
        assert!(std::fs::read(&back).unwrap() == content);
    }
}

#[test]
fn several_qemu_clients_write_one_disk_at_once() {
    let bench = Bench::new(4096, false);
    thread::scope(|threads| {
        for id in 1..=4 {
            let bench = &bench;
            threads.spawn(move || {
                let write = format!("write -P {id} {id}M 1M");
                let read = format!("read -P {id} {id}M 1M");
                bench.qemu_io(&[write.as_str(), "flush", read.as_str()]);
            });
        }
    });
    bench.qemu_io(&[
        "read -P 1 1M 1M",
        "read -P 2 2M 1M",
        "read -P 3 3M 1M",
        "read -P 4 4M 1M",
    ]);
}

#[test]
fn qemu_nbd_lists_the_export() {
    let bench = Bench::new(512, false);
    let socket = bench.dir.path().join("socket");
    let printed = expect_success(PACKAGE, "qemu-nbd", &["--list", "--socket", text(&socket)]);
    for expected in [
        "exports available: 1",
        "export: 'nandlab'",
        "size:  8388608",
        "fua",
        "trim",
        "zeroes",
        "multi",
        "opt block: 4096",
    ] {
        assert!(
            printed.contains(expected),
            "{expected:?} is missing in\n{printed}"
        );
    }
    assert!(
        Path::new(&socket).exists(),
        "listing leaves the server running"
    );
}
