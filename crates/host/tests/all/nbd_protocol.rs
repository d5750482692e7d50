//! The NBD server against a client that asks for odd and wrong things.

use crate::common::{MIB, client::*, pattern, ram::Probe, ram_disk};
use nandlab_block::{BlockDevice, BlockError, BlockGeometry, Lba};
use nandlab_host::{
    HostError, SharedDisk,
    nbd::{Address, Options, Server},
};
use std::{
    io::Write,
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
};

/// A server of a 1 MiB RAM disk on a socket in a directory of its own.
struct Bench {
    server: Server,
    disk: SharedDisk,
    probe: Arc<Probe>,
    path: PathBuf,
    dropped: Arc<Mutex<Vec<String>>>,
    _dir: tempfile::TempDir,
}

impl Bench {
    fn new(options: Options) -> Self {
        let (disk, probe) = ram_disk(512, MIB);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let dropped = Arc::new(Mutex::new(Vec::new()));
        let list = dropped.clone();
        let options = Options {
            dropped: Some(Arc::new(move |error| {
                list.lock().unwrap().push(error.to_string())
            })),
            ..options
        };
        let server = Server::start(disk.clone(), &Address::Unix(path.clone()), options).unwrap();
        Self {
            server,
            disk,
            probe,
            path,
            dropped,
            _dir: dir,
        }
    }

    fn client(&self) -> Client {
        Client::connect(&self.path).unwrap().0
    }
}

#[test]
fn the_client_learns_size_abilities_and_block_sizes() {
    let bench = Bench::new(Options::default());
    let (_, export) = Client::connect(&bench.path).unwrap();
    assert_eq!((export.bytes, export.flags), (MIB, 0b1_0110_1101));
    assert_eq!(export.block_sizes, [1, 4096, 32 << 20]);
}

#[test]
fn any_extent_can_be_written_and_read_back() {
    let bench = Bench::new(Options::default());
    let mut client = bench.client();
    let mut model = vec![0; MIB as usize];
    for (offset, length) in [
        (0, 1),
        (511, 2),
        (512, 512),
        (1000, 70_000),
        (MIB - 3, 3),
        (77, 0),
    ] {
        let data = pattern(offset, length);
        assert_eq!(client.write(0, offset, &data), 0);
        model[offset as usize..][..length].copy_from_slice(&data);
        assert_eq!(client.read(offset, length as u32).unwrap(), data);
    }
    assert_eq!(client.read(0, MIB as u32).unwrap(), model);
}

#[test]
fn zeroes_and_trims_reach_the_device_as_they_were_asked_for() {
    let bench = Bench::new(Options::default());
    let mut client = bench.client();
    client.write(0, 0, &pattern(1, MIB as usize));
    assert_eq!(client.ask(WRITE_ZEROES, 0, 100, 2000), 0);
    assert_eq!(
        (client.read(100, 2000).unwrap(), bench.probe.discards()),
        (vec![0; 2000], 1)
    );
    assert_eq!(client.ask(WRITE_ZEROES, NO_HOLE, 8192, 8192), 0);
    assert_eq!(
        (client.read(8192, 8192).unwrap(), bench.probe.discards()),
        (vec![0; 8192], 1)
    );
    assert_eq!(client.ask(TRIM, 0, 32_768, 4096), 0);
    assert_eq!(
        (client.read(32_768, 4096).unwrap(), bench.probe.discards()),
        (vec![0; 4096], 2)
    );
}

#[test]
fn a_flush_and_every_forced_access_flush_the_device_before_the_reply() {
    let bench = Bench::new(Options::default());
    let mut client = bench.client();
    let mut expected = 0;
    for (command, flags) in [
        (FLUSH, 0),
        (TRIM, FUA),
        (WRITE_ZEROES, FUA | NO_HOLE),
        (WRITE_ZEROES, FUA),
    ] {
        assert_eq!(client.ask(command, flags, 0, 4096), 0);
        expected += 1;
        assert_eq!(bench.probe.flushes(), expected, "command {command}");
    }
    assert_eq!(client.write(FUA, 0, &[1; 512]), 0);
    assert_eq!(client.write(0, 0, &[2; 512]), 0);
    assert_eq!(bench.probe.flushes(), expected + 1);
}

#[test]
fn a_request_outside_the_disk_or_the_protocol_gets_an_error_and_the_next_is_served() {
    let bench = Bench::new(Options::default());
    let mut client = bench.client();
    assert_eq!(client.write(0, 0, &[0x5a; 512]), 0);
    assert_eq!(client.read(MIB - 1, 2), Err(EINVAL));
    assert_eq!(client.read(u64::MAX, 1), Err(EINVAL));
    assert_eq!(client.read(0, u32::MAX), Err(EINVAL));
    assert_eq!(client.write(0, MIB - 1, &[0; 2]), ENOSPC);
    assert_eq!(client.ask(WRITE_ZEROES, 0, MIB, 1), ENOSPC);
    assert_eq!(client.ask(TRIM, 0, 0, u32::MAX), EINVAL);
    let block_status = 7;
    let unknown_flag = 1 << 9;
    assert_eq!(client.ask(block_status, 0, 0, 512), EINVAL);
    assert_eq!(client.ask(4711, 0, 0, 512), EINVAL);
    assert_eq!(client.ask(READ, unknown_flag, 0, 512), EINVAL);
    assert_eq!(client.read(0, 512).unwrap(), [0x5a; 512]);
    assert!(bench.dropped.lock().unwrap().is_empty());
}

#[test]
fn each_device_error_has_its_number() {
    let bench = Bench::new(Options::default());
    let mut client = bench.client();
    let table = [
        (BlockError::lost(Lba(0)), EIO),
        (BlockError::internal("disk", "broken"), EIO),
        (BlockError::Backing("gone"), EIO),
        (BlockError::WornOut(None), ENOSPC),
        (BlockError::ReadOnly(None), EPERM),
        (BlockError::PowerCut, ESHUTDOWN),
        (BlockError::Unsupported, ENOTSUP),
    ];
    for (failure, number) in table {
        bench.probe.fail_with(Some(failure));
        assert_eq!(client.write(0, 0, &[0; 512]), number, "{failure}");
        assert_eq!(client.read(0, 512), Err(number), "{failure}");
        assert_eq!(client.ask(FLUSH, 0, 0, 0), number, "{failure}");
    }
    bench.probe.fail_with(None);
    assert_eq!(client.write(0, 0, &[0; 512]), 0);
}

#[test]
fn a_read_only_export_says_so_and_refuses_every_change() {
    let bench = Bench::new(Options {
        read_only: true,
        ..Options::default()
    });
    let (mut client, export) = Client::connect(&bench.path).unwrap();
    assert_eq!(export.flags, 0b1_0000_0011);
    assert_eq!(client.write(0, 0, &[1; 512]), EPERM);
    for command in [TRIM, WRITE_ZEROES] {
        assert_eq!(client.ask(command, 0, 0, 512), EPERM);
    }
    assert_eq!(client.read(0, 512).unwrap(), [0; 512]);
    assert_eq!((bench.probe.writes(), bench.probe.discards()), (0, 0));
}

#[test]
fn garbage_costs_its_sender_the_connection_and_nobody_else_anything() {
    let bench = Bench::new(Options::default());
    let mut bystander = bench.client();
    for seed in 0..20 {
        let mut early = Client::greet(&bench.path).unwrap();
        // The server may hang up before it has taken everything.
        let _ = early.stream.write_all(&pattern(seed, 300));
        assert!(early.is_dropped());
        let mut late = bench.client();
        let _ = late.stream.write_all(&pattern(seed, 300));
        assert!(late.is_dropped());
        assert_eq!(bystander.write(0, seed * 512, &[7; 512]), 0);
    }
    drop(bystander);
    let Bench {
        server, dropped, ..
    } = bench;
    server.stop().unwrap();
    let dropped = dropped.lock().unwrap();
    assert_eq!(dropped.len(), 40, "{dropped:?}");
    assert!(
        dropped.iter().all(|reason| reason.contains("expected 0x")),
        "{dropped:?}"
    );
}

#[test]
fn a_write_longer_than_the_limit_costs_the_connection() {
    let bench = Bench::new(Options::default());
    let mut claimant = bench.client();
    let mut liar = bench.client();
    claimant.send(WRITE, 0, 0, 32 << 20).unwrap();
    liar.send(WRITE, 0, 0, (32 << 20) + 1).unwrap();
    assert!(liar.is_dropped());
    assert_eq!(
        bench.dropped.lock().unwrap()[..],
        ["write of 33554433 bytes, at most 33554432 are taken"]
    );
    claimant.stream.write_all(&vec![1; 32 << 20]).unwrap();
    assert_eq!(
        claimant.reply().unwrap(),
        ENOSPC,
        "taken in whole, refused for the disk's size"
    );
    assert_eq!(claimant.write(0, 0, &[1; 512]), 0);
}

#[test]
fn clients_at_once_see_one_disk() {
    let bench = Bench::new(Options::default());
    thread::scope(|threads| {
        for id in 0..8u64 {
            let mut client = bench.client();
            threads.spawn(move || {
                for round in 0..50 {
                    // Neighbours share the sectors at their borders.
                    let offset = id * 1000;
                    let data = pattern(id * 100 + round, 1000);
                    assert_eq!(client.write(0, offset, &data), 0);
                    assert_eq!(client.read(offset, 1000).unwrap(), data);
                }
            });
        }
    });
    let all = bench.client().read(0, 8000).unwrap();
    let expected: Vec<u8> = (0..8).flat_map(|id| pattern(id * 100 + 49, 1000)).collect();
    assert_eq!(all, expected);
}

#[test]
fn one_client_too_many_is_turned_away_until_another_leaves() {
    let bench = Bench::new(Options {
        clients_max: 1,
        ..Options::default()
    });
    let mut first = bench.client();
    assert!(Client::greet(&bench.path).is_err());
    first.send(DISCONNECT, 0, 0, 0).unwrap();
    assert!(first.is_dropped());
    let mut second = bench.client();
    assert_eq!(second.write(0, 0, &[1; 512]), 0);
}

#[test]
fn stopping_drops_clients_removes_the_socket_flushes_and_gives_the_device_back() {
    let bench = Bench::new(Options::default());
    let mut client = bench.client();
    assert_eq!(client.write(0, 0, &[3; 512]), 0);
    let Bench {
        server,
        disk,
        probe,
        path,
        ..
    } = bench;
    server.stop().unwrap();
    assert!(client.is_dropped());
    assert!(!path.exists());
    assert_eq!(probe.flushes(), 1);
    let mut sector = [0; 512];
    disk.into_inner()
        .unwrap()
        .read(Lba(0), &mut sector)
        .unwrap();
    assert_eq!(sector, [3; 512]);
}

#[test]
fn the_last_client_ends_a_server_that_waits_for_it_but_one_that_only_looked_does_not() {
    let bench = Bench::new(Options {
        stop_after_last: true,
        ..Options::default()
    });
    let mut looker = Client::greet(&bench.path).unwrap();
    looker.stream.write_all(&[0; 3]).unwrap();
    drop(looker);
    let first = bench.client();
    let second = bench.client();
    drop(first);
    let mut second = second;
    assert_eq!(second.write(0, 0, &[1; 512]), 0);
    drop(second);
    bench.server.wait().unwrap();
    assert!(!bench.path.exists());
}

#[test]
fn a_stopper_ends_the_server_from_elsewhere() {
    let bench = Bench::new(Options::default());
    let stopper = bench.server.stopper();
    let other = thread::spawn(move || stopper.stop());
    bench.server.wait().unwrap();
    other.join().unwrap();
}

#[test]
fn a_failed_last_flush_is_reported() {
    let bench = Bench::new(Options::default());
    bench.probe.fail_with(Some(BlockError::PowerCut));
    assert!(matches!(
        bench.server.stop(),
        Err(HostError::Flush(BlockError::PowerCut))
    ));
}

/// A device with a bug.
struct Broken(BlockGeometry);

impl BlockDevice for Broken {
    fn geometry(&self) -> &BlockGeometry {
        &self.0
    }
    fn read(&mut self, _: Lba, _: &mut [u8]) -> Result<(), BlockError> {
        panic!("a bug in the device, raised on purpose")
    }
    fn write(&mut self, _: Lba, _: &[u8]) -> Result<(), BlockError> {
        Ok(())
    }
    fn flush(&mut self) -> Result<(), BlockError> {
        Ok(())
    }
    fn discard(&mut self, _: Lba, _: u64) -> Result<(), BlockError> {
        Ok(())
    }
}

#[test]
fn a_device_that_panics_is_refused_to_everybody_and_reported_at_the_end() {
    let disk = SharedDisk::new(Box::new(Broken(BlockGeometry {
        sector: 512,
        sectors: 8,
        page: 512,
    })));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let server = Server::start(
        disk.clone(),
        &Address::Unix(path.clone()),
        Options::default(),
    )
    .unwrap();
    let mut first = Client::connect(&path).unwrap().0;
    let mut second = Client::connect(&path).unwrap().0;
    first.send(READ, 0, 0, 512).unwrap();
    assert!(first.is_dropped());
    assert_eq!(second.write(0, 0, &[0; 512]), EIO);
    assert!(matches!(server.stop(), Err(HostError::Panicked)));
    assert!(!path.exists() && disk.into_inner().is_none());
}
