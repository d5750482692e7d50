//! HTML and SVG elements that are well-formed and escaped by construction.

use std::fmt;

/// An element with its attributes and content; text and attribute values are escaped as they enter.
#[derive(Clone, Debug)]
pub struct Element {
    tag: &'static str,
    attributes: String,
    content: String,
}

/// An empty element. `tag` must not be one of HTML's void elements.
pub fn el(tag: &'static str) -> Element {
    Element {
        tag,
        attributes: String::new(),
        content: String::new(),
    }
}

impl Element {
    /// Adds an attribute to the element.
    pub fn attr(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.attributes
            .push_str(&format!(" {key}=\"{}\"", escape(&value.to_string())));
        self
    }

    /// Adds the `class` attribute.
    pub fn class(self, names: impl fmt::Display) -> Self {
        self.attr("class", names)
    }

    /// Appends text, escaped for markup.
    pub fn text(mut self, text: &str) -> Self {
        self.content.push_str(&escape(text));
        self
    }

    /// Appends an element as the last child.
    pub fn child(mut self, child: Element) -> Self {
        self.content.push_str(&child.to_string());
        self
    }

    /// Appends elements in order.
    pub fn children(self, children: impl IntoIterator<Item = Element>) -> Self {
        children.into_iter().fold(self, Element::child)
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "<{0}{1}>{2}</{0}>",
            self.tag, self.attributes, self.content
        )
    }
}

/// A line or polygon colour by place in the palette, with its dash pattern; repeats after eight.
pub fn slot(at: usize) -> String {
    format!("s{}", at % 8)
}

/// A key to series: one line sample and name each.
pub fn legend(names: &[(usize, &str)]) -> Element {
    el("ul").class("legend").children(
        names
            .iter()
            .map(|&(at, name)| el("li").child(swatch(at)).text(name)),
    )
}

/// A short sample of the line that stands for the series at `at`.
pub fn swatch(at: usize) -> Element {
    let line = el("path")
        .class(format!("line {}", slot(at)))
        .attr("d", "M1 6H27");
    el("svg")
        .class("swatch")
        .attr("viewBox", "0 0 28 12")
        .attr("aria-hidden", "true")
        .child(line)
}

/// A figure: heading, an SVG drawing that tells screen readers its title and description, and the
/// same description beneath.
pub fn figure(title: &str, about: &str, drawing: Drawing) -> Element {
    let svg = el("svg")
        .class(format!("chart {}", drawing.kind))
        .attr(
            "viewBox",
            format!("0 0 {} {}", drawing.width, drawing.height),
        )
        .attr("role", "img")
        .child(el("title").text(title))
        .child(el("desc").text(about))
        .children(drawing.marks);
    let frame = el("div").class("scroll").child(svg);
    el("figure")
        .child(
            el("figcaption")
                .child(el("h3").text(title))
                .child(el("p").text(about)),
        )
        .child(frame)
}

/// The inside of a figure in user units (CSS pixels at full width).
pub struct Drawing {
    /// A word for style and script: `plot`, `bars`, `map`.
    pub kind: &'static str,
    /// The width in pixels.
    pub width: f64,
    /// The height in pixels.
    pub height: f64,
    /// SVG elements, back to front.
    pub marks: Vec<Element>,
}

/// A text element at a place.
pub fn label(x: f64, y: f64, class: &str, text: &str) -> Element {
    el("text")
        .attr("x", pixel(x))
        .attr("y", pixel(y))
        .class(class)
        .text(text)
}

/// A coordinate, to a tenth of a unit.
pub fn pixel(value: f64) -> String {
    format!("{}", (value * 10.0).round() / 10.0 + 0.0)
}

/// `text` in at most `limit` characters, an ellipsis in its middle: names of a sweep differ at
/// their ends.
pub fn shorten(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    if count <= limit {
        return text.into();
    }
    let head = limit / 2;
    let tail = limit.saturating_sub(head + 1);
    text.chars()
        .take(head)
        .chain(['…'])
        .chain(text.chars().skip(count - tail))
        .collect()
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            // Controls, and the characters that would turn the direction of what follows.
            c if c.is_control()
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                out.push('\u{fffd}')
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_cannot_leave_their_place() {
        let hostile = "</p><script>'\"&\0\u{202e}";
        let out = el("p").attr("title", hostile).text(hostile).to_string();
        let safe = "&lt;/p&gt;&lt;script&gt;&#39;&quot;&amp;\u{fffd}\u{fffd}";
        assert_eq!(out, format!("<p title=\"{safe}\">{safe}</p>"));
    }

    #[test]
    fn names_are_cut_by_characters_not_bytes() {
        assert_eq!(shorten("µµµµ", 4), "µµµµ");
        assert_eq!(shorten("µµ-long-λλ", 5), "µµ…λλ");
    }
}
