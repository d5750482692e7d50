//! tmp
use nandlab_block::{BlockDevice, Lba};
use nandlab_ftl::Ftl;
use nandlab_ftl::nftl::{Nftl, NftlOptions, Ordering, ChainVictim};
use nandlab_nand::{Chip, Contents, preset};
#[test]
fn t() {
    for (ordering, verify_free, victim) in [(Ordering::Linux, true, ChainVictim::Longest), (Ordering::Guarded, true, ChainVictim::Longest), (Ordering::Linux, false, ChainVictim::MinCopy), (Ordering::Guarded, false, ChainVictim::MinCopy)] {
    let mut spec = preset::find("small-block-64MiB").unwrap().spec();
    spec.contents = Contents::Dropped;
    spec.rules.partial_programs = 4;
    let t=std::time::Instant::now();
    let mut d = Nftl::format(Chip::new(spec).unwrap(), NftlOptions{ordering, verify_free, victim, ..Default::default()}).unwrap();
    for i in 0..d.geometry().sectors { d.write(Lba(i), &[1;512]).unwrap(); }
    eprintln!("aged {:?}", t.elapsed());
    let t=std::time::Instant::now();
    let before = d.medium().counts(); let m0=d.tally().merges; let h0=d.tally().host_pages;
    let mut data=0u64; let mut photos=0u64;
    for p in 0..40u64 {
        let sectors = 600 + nandlab_sim::mix(1,p)%400;
        for s in 0..sectors {
            let cl=data/4 % 16343;
            d.write(Lba(161 + data % 65372), &[1;512]).unwrap();
            if s%4==0 { d.write(Lba(1+cl/256), &[1;512]).unwrap(); d.write(Lba(65+cl/256), &[1;512]).unwrap(); }
            d.write(Lba(129+photos%512/16), &[1;512]).unwrap();
            data+=1;
        }
        photos+=1;
    }
    let c=d.medium().counts(); let m=d.tally().merges; 
    eprintln!("{ordering:?} verify {verify_free} {victim:?}: host {} R {} P {} OR {} OP {} E {} inplace {} else {} in {:?}", d.tally().host_pages-h0, c.reads-before.reads, c.programs-before.programs, c.oob_reads-before.oob_reads, c.oob_programs-before.oob_programs, c.erases-before.erases, m.folds_in_place-m0.folds_in_place, m.folds_elsewhere-m0.folds_elsewhere, t.elapsed());
    }
}
