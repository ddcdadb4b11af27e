//! The page about the fields of Velero's specs, from the one table that also refuses them.

use std::fmt::Write;

use croft_core::backup::{
    fields::{self, Field, Rule, Shape},
    restorable,
};

use super::{Files, MARK};

pub(super) fn page() -> Files {
    let mut page = format!(
        "# Fields of backups, restores and locations\n\n<!-- {MARK}. -->\n\nEvery field Velero has, and who decides about it. A field that is \
         not on this page is refused.\n"
    );
    for (title, table) in [
        ("spec.backupSpec of a NonAdminBackup", fields::BACKUP),
        ("spec.restoreSpec of a NonAdminRestore", fields::RESTORE),
        ("spec.backupStorageLocationSpec of a NonAdminBackupStorageLocation", fields::LOCATION),
    ] {
        let _ = write!(page, "\n## `{}`{}\n\n| field | |\n| --- | --- |\n", word(title), rest(title));
        rows(table, "", &mut page);
    }
    let _ = write!(
        page,
        "\n## Kinds a restore brings back\n\nThese, and what the administrator adds with `backup.restorableKinds`:\n\n"
    );
    for kind in restorable::USUAL {
        let _ = writeln!(page, "- `{}`", kind.name);
    }
    [("docs/backup-fields.md".into(), page)].into()
}

fn word(title: &str) -> &str {
    title.split(' ').next().unwrap_or_default()
}

fn rest(title: &str) -> &str {
    title.get(word(title).len()..).unwrap_or_default()
}

/// What stands inside a field is listed where somebody else decides about it.
fn rows(table: &[Field], path: &str, page: &mut String) {
    for field in table {
        let name = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
        if path.is_empty() || field.rule != Rule::Free {
            let _ = writeln!(page, "| `{name}` | {} |", field.rule.about());
        }
        if let (Shape::Object(inner) | Shape::Objects(inner), true) = (field.shape, field.rule != Rule::Forbidden) {
            rows(inner, &name, page);
        }
    }
}
