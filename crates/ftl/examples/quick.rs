use nandlab_block::{BlockDevice, Lba};
use nandlab_ftl::page::*;
use nandlab_ftl::Ftl;
use nandlab_mtd::Geometry;
use nandlab_nand::*;
use rand::Rng as _;
use std::time::Instant;

fn bare(pages: u32, ppb: u32, logical: u32, writes: u64, seed: u64) -> (f64, f64) {
    let blocks = pages / ppb;
    let mut l2p = vec![u32::MAX; logical as usize];
    let mut p2l = vec![[u32::MAX; 4]; pages as usize];
    let mut bitmap = vec![0u64; (pages / 64) as usize];
    let mut valid = vec![0u32; blocks as usize];
    let mut next = vec![u32::MAX; blocks as usize];
    let mut prev = vec![u32::MAX; blocks as usize];
    let mut heads = vec![u32::MAX; ppb as usize + 1];
    let mut closed = vec![false; blocks as usize];
    let mut free: Vec<u32> = (0..blocks).rev().collect();
    let mut lowest = ppb as usize;
    let mut programs = 0u64;
    let mut host = (free.pop().unwrap(), 0u32);
    let mut gc = (free.pop().unwrap(), 0u32);
    let mut rng = nandlab_sim::rng(seed, "bare");
    let mut t = Instant::now();
    let mut p0 = 0;
    for w in 0..(2 * u64::from(logical) + writes) {
        if w == 2 * u64::from(logical) { t = Instant::now(); p0 = programs; }
        let lpn = if w < u64::from(logical) { w as u32 } else { ((u64::from(rng.next_u32()) * u64::from(logical)) >> 32) as u32 };
        if host.1 == ppb {
            macro_rules! close { ($b:expr) => {{ let b = $b; let v = valid[b as usize] as usize; closed[b as usize] = true; next[b as usize] = heads[v]; prev[b as usize] = u32::MAX; if heads[v] != u32::MAX { prev[heads[v] as usize] = b; } heads[v] = b; lowest = lowest.min(v); }} }
            close!(host.0);
            while free.len() < 3 {
                while heads[lowest] == u32::MAX { lowest += 1; }
                let v = heads[lowest];
                let n = next[v as usize];
                heads[lowest] = n;
                if n != u32::MAX { prev[n as usize] = u32::MAX; }
                closed[v as usize] = false;
                for word in 0..(ppb / 64) {
                    let i = (v * ppb / 64 + word) as usize;
                    let mut bits = bitmap[i];
                    while bits != 0 {
                        let p = v * ppb + word * 64 + bits.trailing_zeros();
                        bits &= bits - 1;
                        if gc.1 == ppb { close!(gc.0); gc = (free.pop().unwrap(), 0); }
                        let to = gc.0 * ppb + gc.1;
                        gc.1 += 1;
                        let l = p2l[p as usize];
                        p2l[to as usize] = [l[0], programs as u32, (programs >> 32) as u32, gc.0];
                        l2p[l[0] as usize] = to;
                        bitmap[(to / 64) as usize] |= 1 << (to % 64);
                        valid[gc.0 as usize] += 1;
                        programs += 1;
                    }
                    bitmap[i] = 0;
                }
                valid[v as usize] = 0;
                free.push(v);
            }
            host = (free.pop().unwrap(), 0);
        }
        let to = host.0 * ppb + host.1;
        host.1 += 1;
        programs += 1;
        let old = std::mem::replace(&mut l2p[lpn as usize], to);
        p2l[to as usize] = [lpn, programs as u32, (programs >> 32) as u32, host.0];
        bitmap[(to / 64) as usize] |= 1 << (to % 64);
        valid[host.0 as usize] += 1;
        if old != u32::MAX {
            bitmap[(old / 64) as usize] &= !(1 << (old % 64));
            let b = (old / ppb) as usize;
            let v = valid[b] as usize;
            valid[b] -= 1;
            if closed[b] {
                let (n, p) = (next[b], prev[b]);
                if p == u32::MAX { heads[v] = n } else { next[p as usize] = n }
                if n != u32::MAX { prev[n as usize] = p }
                next[b] = heads[v - 1];
                prev[b] = u32::MAX;
                if heads[v - 1] != u32::MAX { prev[heads[v - 1] as usize] = b as u32 }
                heads[v - 1] = b as u32;
                lowest = lowest.min(v - 1);
            }
        }
    }
    (writes as f64 / t.elapsed().as_secs_f64(), (programs - p0) as f64 / writes as f64)
}

fn ours(blocks: u32, op: f64, writes: u64, contents: Contents) -> (f64, f64) {
    let mut spec = preset::find("slc-2k").unwrap().spec();
    spec.geometry = Geometry { dies: 8, channels: 8, ..Geometry::single_die(4096, 15, 256, blocks) };
    spec.rules.partial_programs = 1;
    spec.contents = contents;
    let mut f = PageFtl::format(Chip::new(spec).unwrap(), PageOptions { over_provisioning: op, wear_threshold: 0, ..Default::default() }).unwrap();
    let logical = f.logical_pages();
    let data = vec![7u8; 4096];
    let mut rng = nandlab_sim::rng(1, "bare");
    let mut t = Instant::now();
    let mut p0 = *f.tally();
    for w in 0..(2 * u64::from(logical) + writes) {
        if w == 2 * u64::from(logical) { t = Instant::now(); p0 = *f.tally(); }
        let lpn = if w < u64::from(logical) { w as u32 } else { ((u64::from(rng.next_u32()) * u64::from(logical)) >> 32) as u32 };
        f.write(Lba(u64::from(lpn) * 8), &data).unwrap();
    }
    let e = t.elapsed().as_secs_f64();
    let total = |t: &nandlab_ftl::Tally| t.rows().filter(|r| r.0 != nandlab_ftl::Cause::Mapping).map(|(_, n)| n.programs + n.copies).sum::<u64>();
    (writes as f64 / e, (total(f.tally()) - total(&p0)) as f64 / writes as f64)
}

fn main() {
    let gb: u32 = std::env::args().nth(1).map_or(8, |s| s.parse().unwrap());
    let blocks = gb * 1024;
    if let Some(n) = std::env::args().nth(2) {
        println!("{:?}", ours(blocks, 0.07, n.parse().unwrap(), Contents::Dropped));
        return;
    }
    for op in [0.07, 0.28] {
        let pages = blocks * 256;
        let logical = (f64::from(pages) / (1.0 + op)) as u32;
        for _ in 0..2 {
            let b = bare(pages, 256, logical, 3_000_000, 1);
            let o = ours(blocks, op, 3_000_000, Contents::Dropped);
            println!("op {op}: bare {:.2} M/s WA {:.3}; ours {:.2} M/s WA {:.3}; ratio {:.2}", b.0 / 1e6, b.1, o.0 / 1e6, o.1, o.0 / b.0);
        }
    }
}
