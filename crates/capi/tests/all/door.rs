//! A program in C calls every function of the header, linked in both ways.

use crate::build::{Link, compile, printed, run, source};

#[test]
fn a_program_in_c_uses_every_function() {
    let scratch = tempfile::tempdir().unwrap();
    for link in [Link::Static, Link::Shared] {
        let arguments = ["-pedantic", &source("door.c")];
        let program = compile("door", link, &arguments, scratch.path());
        let output = run(&program);
        assert!(output.status.success(), "{link:?}: {}", printed(&output));
        assert_eq!(output.stdout, b"the door opens\n", "{link:?}");
    }
}

/// A function that the program forgets would not be tested.
#[test]
fn the_program_in_c_names_every_function_of_the_header() {
    let header = std::fs::read_to_string(crate::build::folder().join("include/nandlab.h")).unwrap();
    let program = std::fs::read_to_string(source("door.c")).unwrap();
    let declared = header
        .split("nandlab_")
        .skip(1)
        .filter_map(|rest| rest.split_once('('))
        .map(|(name, _)| format!("nandlab_{name}"))
        .filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    let declared: std::collections::BTreeSet<String> = declared.collect();
    assert!(declared.len() > 20, "{declared:?}");
    for name in declared {
        assert!(program.contains(&format!("{name}(")), "{name}");
    }
}
