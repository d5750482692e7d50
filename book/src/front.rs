//! Renders the README as a page of its own, as wide as a code host shows it.

use pulldown_cmark::{Options, Parser, html};
use std::path::Path;

const HEAD: &str = "<!doctype html><meta charset=\"utf-8\"><title>README</title><style>\
    body{max-width:830px;margin:24px auto;font:16px/1.5 sans-serif;color:#1f2328}\
    h1,h2{border-bottom:1px solid #d1d9e0;padding-bottom:.3em}\
    img{max-width:100%}code{background:#f0f1f2;font-size:85%;padding:.1em .3em}\
    pre{background:#f6f8fa;padding:14px;white-space:pre-wrap}pre code{padding:0}\
    table{border-collapse:collapse}td,th{border:1px solid #d1d9e0;padding:5px 12px}</style>";

/// Writes `target/book-front/readme.html`. Pictures are those of the checkout.
pub fn write(root: &Path) -> Result<(), String> {
    let failed = |why: std::io::Error| format!("README: {why}");
    let text = std::fs::read_to_string(root.join("README.md")).map_err(failed)?;
    let mut page = format!("{HEAD}<base href=\"file://{}/\">", root.display());
    html::push_html(&mut page, Parser::new_ext(&text, Options::ENABLE_TABLES));
    let folder = root.join("target/book-front");
    std::fs::create_dir_all(&folder).map_err(failed)?;
    std::fs::write(folder.join("readme.html"), page).map_err(failed)
}
