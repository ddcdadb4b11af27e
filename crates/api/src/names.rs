//! Names that belong to no single part.

/// Field manager of every server-side apply; our entry in `managedFields` is the witness of drift.
pub const FIELD_MANAGER: &str = "croft";
