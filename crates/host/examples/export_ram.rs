//! Exports a RAM disk, to try a client or to measure the server itself:
//!
//! ```text
//! cargo run --release -p nandlab-host --example export_ram -- /tmp/disk.sock 256
//! qemu-img bench -f raw -c 100000 -d 1 -s 4096 -w 'nbd+unix:///nandlab?socket=/tmp/disk.sock'
//! ```

use nandlab_block::Ram;
use nandlab_host::{
    SharedDisk,
    nbd::{Options, Server},
};
use std::{env, error::Error, sync::Arc};

fn main() -> Result<(), Box<dyn Error>> {
    let [address, mib] = env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "expected ADDRESS and MIB")?;
    let disk = SharedDisk::new(Box::new(Ram::new(512, mib.parse::<u64>()? * 2048)));
    let options = Options {
        dropped: Some(Arc::new(|reason| eprintln!("dropped a client: {reason}"))),
        ..Options::default()
    };
    let server = Server::start(disk, &address.parse()?, options)?;
    println!("listening on {}", server.address());
    Ok(server.wait()?)
}
