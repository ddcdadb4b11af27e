//! Listings too long for one answer.

/// A part of a listing, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on this page.
    pub items: Vec<T>,
    /// To be given as `after` to get the next page; `None` if this is the last.
    pub next: Option<String>,
}
