//! What a page is made of.

use super::markup::Element;

/// A titled stretch of the page: paragraphs, tables, figures.
pub struct Section {
    /// The heading above the section.
    pub title: String,
    /// What follows the heading, in order.
    pub body: Vec<Element>,
}
