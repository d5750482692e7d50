//! Every platform prices as it did, and every bad one is refused where it stands.

use super::*;
use nandlab_nand::preset;
use std::path::Path;

fn take(text: &str) -> Result<Option<HostDescription>, String> {
    let mut document = Document::parse("e.toml", Path::new(""), &format!("[host]\n{text}"), &[])
        .map_err(|e| e.to_string())?;
    HostDescription::take(&mut document)
        .map(|(host, _)| host)
        .map_err(|e| e.to_string())
}

#[test]
fn a_platform_is_its_table_until_a_key_says_otherwise() {
    assert_eq!(take("").unwrap(), None);
    let host =
        take("platform = \"arm-400mhz\"\necc = 100\ninstruction-ns = 2.5\nlayer-extra = \"1 ms\"")
            .unwrap()
            .unwrap();
    assert_eq!(
        (
            host.time(host.costs.ecc),
            host.costs.pio_ns_per_byte,
            host.layer_ns
        ),
        (250, 60.0, 1_000_000)
    );
}

#[test]
fn each_platform_has_its_own_speed_and_only_its_own_costs() {
    let arm = take("platform = \"arm-400mhz\"").unwrap().unwrap();
    let pc = take("platform = \"pc-3ghz\"").unwrap().unwrap();
    assert_eq!(
        (
            arm.program(1000),
            pc.program(1000),
            arm.time(arm.costs.fsync) / pc.time(pc.costs.fsync)
        ),
        (5000, 500, 10)
    );
    assert_eq!(
        (
            arm.time(arm.costs.write_page),
            pc.costs.write_page,
            pc.costs.pio_ns_per_byte
        ),
        (0, 4159.0, 0.0)
    );
}

#[test]
fn what_deflate_costs_lies_between_the_pages_that_were_counted() {
    let host = take("platform = \"omap5912\"\ninstruction-ns = 1")
        .unwrap()
        .unwrap();
    let page = |packed: u64| Work {
        zlib: Coded {
            runs: 2,
            plain: 8192,
            packed: 2 * packed,
            ..Coded::default()
        },
        ..Work::default()
    };
    let of = |packed| host.jffs2(&page(packed)) / 2;
    assert_eq!(
        [0, 48, 1654, 4096, 5000].map(of),
        [85_611, 85_611, 388_670, 454_814, 454_814]
    );
    assert_eq!(of(851), (85_611 + 388_670) / 2);
    let node = Work {
        nodes: 1,
        bytes: 100,
        bytes_read: 100,
        ..Work::default()
    };
    assert_eq!(host.jffs2(&node), 2_774 + 728);
    assert_eq!(
        take("platform = \"pc-3ghz\"")
            .unwrap()
            .unwrap()
            .jffs2(&page(48)),
        0
    );
}

#[test]
fn what_lzo_costs_lies_between_the_pages_that_were_counted() {
    let host = take("platform = \"omap5912\"\ninstruction-ns = 1")
        .unwrap()
        .unwrap();
    let of = |packed: u64| {
        host.jffs2(&Work {
            lzo: Coded {
                runs: 1,
                plain: 4096,
                packed,
                ..Coded::default()
            },
            ..Work::default()
        })
    };
    assert_eq!(
        [0, 44, 2308, 4096, 4200].map(of),
        [7_140, 7_140, 57_246, 9_799, 9_799]
    );
    assert_eq!(of(1176), (7_140 + 57_246) / 2);
    // Pages of zeros and of text, decompressed: within a thousandth of what was counted.
    let back = |unpacked_from: u64| {
        host.jffs2(&Work {
            lzo: Coded {
                unpacked: 4096,
                unpacked_from,
                ..Coded::default()
            },
            ..Work::default()
        })
    };
    let pairs = [(back(44), 12_617), (back(2308), 25_523)];
    for (found, counted) in pairs {
        assert!(
            found.abs_diff(counted) * 1000 <= counted,
            "{found} {counted}"
        );
    }
}

#[test]
fn the_driver_adds_to_every_operation_and_never_makes_the_bus_faster() {
    let text = "platform = \"arm-400mhz\"\ninstruction-ns = 1\nflash = 10\necc = 100\npio-ns-per-byte = 20";
    let host = take(text).unwrap().unwrap();
    let chip = preset::find("small-block-64MiB").unwrap().spec().timing;
    let driven = host.driven(&chip);
    assert_eq!(
        (driven.read_ns, driven.program_ns, driven.erase_ns),
        (
            chip.read_ns + 110,
            chip.program_ns + 110,
            chip.erase_ns + 10
        )
    );
    assert_eq!(
        (driven.oob_read_ns, driven.oob_program_ns),
        (Some(chip.read_ns + 10), Some(chip.program_ns + 10))
    );
    assert_eq!(driven.bus_ps_per_byte, chip.bus_ps_per_byte.max(20_000));
}

#[test]
fn each_bad_value_is_refused_at_its_key() {
    let cases = [
        (
            "platform = \"arm\"",
            "e.toml:2:12: host.platform: found \"arm\", expected one of \"none\", \"arm-400mhz\", \"pc-3ghz\"",
        ),
        (
            "platform = \"arm-400mhz\"\nread-page = 5",
            "host.read-page: has no effect, it needs platform = \"pc-3ghz\"",
        ),
        (
            "ecc = 5",
            "host.ecc: has no effect, it needs a platform (host.platform)",
        ),
        (
            "platform = \"arm-400mhz\"\necc = -1",
            "host.ecc: found -1.0, expected instructions from 0",
        ),
        (
            "platform = \"arm-400mhz\"\nlayer-extra = 5",
            "host.layer-extra: found 5, expected a time",
        ),
    ];
    for (line, expected) in cases {
        let error = take(line)
            .err()
            .unwrap_or_else(|| panic!("{line} was accepted"));
        assert!(error.contains(expected), "{line}: {error}");
    }
}

/// Every value of every platform, as it is listed and as papers declare it.
#[test]
fn platforms_have_the_values_of_the_list() {
    let mut listed = String::new();
    for (name, _) in BUILT_IN {
        let text = format!("[host]\nplatform = \"{name}\"");
        let mut document = Document::parse("e.toml", Path::new(""), &text, &[]).unwrap();
        let (_, settings) = HostDescription::take(&mut document).unwrap();
        let costs = built_in_costs(name).unwrap();
        for Setting { key, value, origin } in settings {
            let cost = costs
                .iter()
                .find(|cost| format!("host.{}", cost.key) == key);
            let source = cost.map_or(String::new(), |cost| {
                let label = cost.label.name();
                format!(" | {} {} | {label} | {}", cost.value, cost.unit, cost.why)
            });
            listed += &format!("{key} = {value} ({origin}){source}\n");
        }
    }
    assert_eq!(listed, include_str!("../../platforms/effective.txt"));
}

/// Takes the platform `child.toml` out of a directory of these files.
fn take_files(files: &[(&str, &str)]) -> Result<HostDescription, String> {
    let directory = tempfile::tempdir().unwrap();
    for (name, keys) in files {
        std::fs::write(directory.path().join(name), format!("[host]\n{keys}")).unwrap();
    }
    let text = "[host]\nplatform = \"child.toml\"\nremove = 3";
    let mut document = Document::parse("e.toml", directory.path(), text, &[]).unwrap();
    let place = format!("{}/", directory.path().display());
    HostDescription::take(&mut document)
        .map(|(host, _)| host.unwrap())
        .map_err(|error| error.to_string().replace(&place, ""))
}

#[test]
fn a_platform_of_ones_own_inherits_from_files_and_from_ours() {
    let parent = "inherits = \"omap5912\"\ncreate = 1\nfsync = 7";
    let child =
        "inherits = \"parent.toml\"\ncreate = { why = \"counted\", measured = 2.5 }\nubi-bad = 4";
    let host = take_files(&[("parent.toml", parent), ("child.toml", child)]).unwrap();
    let ours = take("platform = \"omap5912\"").unwrap().unwrap();
    let expected = Costs {
        create: 2.5,
        remove: 3.0,
        fsync: 7.0,
        ubi_bad: 4.0,
        ..ours.costs
    };
    assert_eq!(host.costs, expected);
}

#[test]
fn each_bad_platform_file_is_refused_at_its_key() {
    let cases = [
        (
            "inherits = \"pc-3gz\"",
            "child.toml:2:12: host.inherits: found \"pc-3gz\", expected one of \"arm-400mhz\", \"pc-3ghz\", \"omap5912\", \"omap2420\", or the path of a .toml file; did you mean \"pc-3ghz\"?",
        ),
        (
            "inherits = \"child.toml\"",
            "child.toml:2:12: host.inherits: found \"child.toml\", expected no circle: child.toml -> child.toml",
        ),
        (
            "inherits = \"other.toml\"",
            "other.toml:2:12: host.inherits: found \"child.toml\", expected no circle: child.toml -> other.toml -> child.toml",
        ),
        (
            "inherits = \"absent.toml\"",
            "child.toml:2:12: host.inherits: found \"absent.toml\", expected a file that can be read (",
        ),
        (
            "inherits = \"none\"",
            "child.toml:2:12: host.inherits: found \"none\", expected one of \"arm-400mhz\"",
        ),
        (
            "create = 1\nreqest = 2",
            "child.toml:3:1: host.reqest: unknown key, did you mean \"request\"?",
        ),
        (
            "create = { measurd = 1, why = \"\" }",
            "child.toml:2:10: host.create: found { measurd = 1, why = \"\" }, expected a number, or { measured",
        ),
        (
            "create = { measured = 1 }",
            "child.toml:2:10: host.create: found { measured = 1 }, expected a number, or",
        ),
        (
            "create = -1",
            "child.toml:2:10: host.create: found -1.0, expected instructions from 0 to 1000000000",
        ),
        (
            "[chip]",
            "child.toml:2:2: [chip]: unknown section, expected [host]",
        ),
        (
            "create = 1",
            "e.toml:2:12: host.platform: found \"child.toml\", expected a platform that declares instruction-ns",
        ),
    ];
    for (text, expected) in cases {
        let files = [
            ("child.toml", text),
            ("other.toml", "inherits = \"child.toml\""),
        ];
        let error = take_files(&files).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
