//! Prints `nandlab.h`, made by cbindgen from the sources of nandlab-capi. The argument is the
//! folder of that crate.

use cbindgen::{Builder, Config};
use std::path::PathBuf;
use std::process::ExitCode;

/// The files with exported items, in the order of the header.
const SOURCES: [&str; 3] = ["error", "chip", "log"];

fn header(folder: PathBuf) -> Result<(), String> {
    let config = Config::from_file(folder.join("cbindgen.toml"))?;
    let mut builder = Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(folder.join(format!("src/{source}.rs")));
    }
    let bindings = builder.generate().map_err(|error| error.to_string())?;
    bindings.write(std::io::stdout());
    Ok(())
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("expected the folder of nandlab-capi");
        return ExitCode::from(2);
    };
    match header(folder.into()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("nandlab.h: {why}");
            ExitCode::FAILURE
        }
    }
}
