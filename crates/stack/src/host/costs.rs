//! The costs that a platform may have, each a typed field.

/// A key of `[host]` and the field that it sets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub key: &'static str,
    pub unit: &'static str,
    pub slot: fn(&mut Costs) -> &mut f64,
}

macro_rules! costs {
    ($($(#[$doc:meta])* $field:ident: $key:literal in $unit:literal,)*) => {
        /// The costs of a processor, each in its own unit; 0 where its platform has none.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct Costs {
            $($(#[$doc])* pub $field: f64,)*
        }

        /// Every field, in the order in which settings and reports list them.
        pub(super) const FIELDS: &[Field] = &[$(Field {
            key: $key,
            unit: $unit,
            slot: |costs| &mut costs.$field,
        },)*];
    };
}

costs! {
    /// The time of one instruction, ns.
    instruction_ns: "instruction-ns" in "ns",
    /// Instructions for the creation of a file.
    create: "create" in "instructions",
    /// Instructions for the removal of a file.
    remove: "remove" in "instructions",
    /// Any call that has no cost of its own.
    call: "call" in "instructions",
    /// A write(2) within one page.
    write: "write" in "instructions",
    /// An fsync(2), without the requests that it makes.
    fsync: "fsync" in "instructions",
    /// A request's way through the block layer.
    request: "request" in "instructions",
    /// A sector's way through the translation layer.
    layer: "layer" in "instructions",
    /// The check that an erased block is blank.
    erase_check: "erase-check" in "instructions",
    /// The driver's part of a chip operation.
    flash: "flash" in "instructions",
    /// The ECC of one page in software.
    ecc: "ecc" in "instructions",
    /// Moving a byte between processor and chip, ns.
    pio_ns_per_byte: "pio-ns-per-byte" in "ns",
    /// Moving a byte between processor and non-volatile memory, ns.
    nvram_ns_per_byte: "nvram-ns-per-byte" in "ns",
    /// Each further page of a write.
    write_page: "write-page" in "instructions",
    /// Each further page of a read.
    read_page: "read-page" in "instructions",
    /// A byte that a write copies from the program.
    user_byte: "user-byte" in "instructions",
    /// A page that a read brings into the page cache.
    page_in: "page-in" in "instructions",
    /// A page that a write brings into the page cache.
    page_new: "page-new" in "instructions",
    /// A read(2) within one page.
    read: "read" in "instructions",
    /// Each page of a write to ext, besides the write.
    ext_page: "ext-page" in "instructions",
    /// A block that ext takes for a file.
    ext_block: "ext-block" in "instructions",
    /// A page of a file that ext submits to the block layer.
    ext_out: "ext-out" in "instructions",
    /// A write(2) to a file system with a journal, besides.
    journal_call: "journal-call" in "instructions",
    /// Each page of it that allocates blocks.
    journal_page: "journal-page" in "instructions",
    /// A block that a transaction logs.
    journal_block: "journal-block" in "instructions",
    /// Instructions for a JFFS2 node.
    node: "node" in "instructions",
    /// A byte of a JFFS2 node: checksum and copy.
    node_byte: "node-byte" in "instructions",
    /// Reading a JFFS2 node, besides its bytes.
    node_read: "node-read" in "instructions",
    /// Reading only a part of a plain node, besides.
    node_part: "node-part" in "instructions",
    /// A JFFS2 node that a newer one replaces.
    node_obsolete: "node-obsolete" in "instructions",
    /// A page that JFFS2 programs from its write buffer.
    node_program: "node-program" in "instructions",
    /// A piece of a file that JFFS2 offers to its compressors.
    pack: "pack" in "instructions",
    /// Decompressing a JFFS2 node, besides its bytes.
    unpack: "unpack" in "instructions",
    /// Setting up deflate.
    deflate_setup: "deflate-setup" in "instructions",
    /// Deflating 512 bytes of text.
    deflate_short_text: "deflate-short-text" in "instructions",
    /// Deflating 512 random bytes.
    deflate_short_noise: "deflate-short-noise" in "instructions",
    /// Deflating a page of zeros.
    deflate_zeros: "deflate-zeros" in "instructions",
    /// Deflating a page of text.
    deflate_text: "deflate-text" in "instructions",
    /// Deflating a page of random bytes.
    deflate_noise: "deflate-noise" in "instructions",
    /// A byte that inflating puts out.
    inflate_byte: "inflate-byte" in "instructions",
    /// A byte that inflating takes in.
    inflate_packed_byte: "inflate-packed-byte" in "instructions",
    /// Setting up LZO's compression.
    lzo_setup: "lzo-setup" in "instructions",
    /// Compressing a page of zeros with LZO.
    lzo_zeros: "lzo-zeros" in "instructions",
    /// Compressing a page of text with LZO.
    lzo_text: "lzo-text" in "instructions",
    /// Compressing a page of random bytes with LZO.
    lzo_noise: "lzo-noise" in "instructions",
    /// A byte that LZO puts out where it decompresses.
    unlzo_byte: "unlzo-byte" in "instructions",
    /// A byte that it takes in there.
    unlzo_packed_byte: "unlzo-packed-byte" in "instructions",
    /// A byte compressed or decompressed with rtime.
    rtime_byte: "rtime-byte" in "instructions",
    /// An element of the write-back routine.
    defer: "defer" in "instructions",
    /// Instructions for a timer interrupt.
    tick: "tick" in "instructions",
    /// The time between two timer interrupts, ms.
    tick_ms: "tick-ms" in "ms",
    /// A call to a UBI volume.
    ubi_call: "ubi-call" in "instructions",
    /// An attach of UBI, besides its blocks.
    ubi_attach: "ubi-attach" in "instructions",
    /// A header in a UBI scan, without its checksum.
    ubi_header: "ubi-header" in "instructions",
    /// A block entered into UBI's tables.
    ubi_block: "ubi-block" in "instructions",
    /// A lookup in the table of bad blocks.
    ubi_bad: "ubi-bad" in "instructions",
    /// A byte of a CRC-32.
    crc_byte: "crc-byte" in "instructions",
}
