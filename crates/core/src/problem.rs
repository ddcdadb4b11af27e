//! What is wrong in a spec: one form for the admission answer and for the condition on an object already stored.

use std::fmt;

use crate::conditions::LONGEST_MESSAGE;

/// More problems than this help nobody: whoever looks for them stops here.
pub const MOST_PROBLEMS: usize = 100;

/// Leaves room in a condition for what stands around the list.
const LONGEST_LIST: usize = LONGEST_MESSAGE / 4;

/// Something wrong in a spec: the field and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path as users write it: `spec.quota.size`.
    pub field: String,
    pub message: String,
}

impl Problem {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }

    /// All problems in one line that fits a condition; where they are too many, the first of them and how many more.
    pub fn list(problems: &[Problem]) -> String {
        let mut line = String::new();
        for (told, problem) in problems.iter().enumerate() {
            let separator = if told == 0 { "" } else { "; " };
            let next = format!("{separator}{problem}");
            if told > 0 && line.len().saturating_add(next.len()) > LONGEST_LIST {
                return format!("{line}; and {} more", problems.len().saturating_sub(told));
            }
            line.push_str(&next);
        }
        line
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.field, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_problems_fits_a_condition_and_says_what_it_leaves_out() {
        let problems = vec![Problem::new("spec.a", "x".repeat(1000)); 100];
        let line = Problem::list(&problems);
        assert!(line.len() < LONGEST_MESSAGE && line.starts_with("spec.a: xxx"), "{}", line.len());
        assert!(line.ends_with("; and 92 more"), "{}", &line[line.len() - 30..]);
        assert_eq!(Problem::list(&problems[..1]), problems[0].to_string());
        assert_eq!(Problem::list(&[]), "");
    }
}
