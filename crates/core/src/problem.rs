//! What is wrong in a spec: one form for the admission answer and for the condition on an object already stored.

use std::fmt;

use crate::conditions::LONGEST_MESSAGE;

/// More problems than this help nobody: whoever looks for them stops here.
pub const MOST_PROBLEMS: usize = 100;

/// Leaves room in a condition for what stands around the list.
const LONGEST_LIST: usize = LONGEST_MESSAGE / 5 * 4;

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

    /// Those that were not there before. One that only stands elsewhere in a list is not new; where there were more than anybody
    /// looks for, none is.
    pub fn new_since(problems: Vec<Problem>, before: &[Problem]) -> Vec<Problem> {
        if before.len() >= MOST_PROBLEMS {
            return Vec::new();
        }
        let mut known: Vec<_> = before.iter().map(Problem::wherever).collect();
        let is_new = |problem: &Problem| {
            let same = problem.wherever();
            let found = known.iter().position(|one| *one == same);
            found.map(|index| known.swap_remove(index)).is_none()
        };
        problems.into_iter().filter(is_new).collect()
    }

    /// The problem without its place in lists.
    fn wherever(&self) -> (String, &str) {
        let mut field = String::new();
        let mut is_index = false;
        for letter in self.field.chars() {
            is_index = if is_index { letter != ']' } else { letter == '[' };
            if !is_index {
                field.push(letter);
            }
        }
        (field, &self.message)
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

    #[test]
    fn whoever_mends_one_of_several_mistakes_has_made_no_new_one() {
        let at = |index: usize, message: &str| Problem::new(format!("spec.resources[{index}].kind"), message);
        let before = [at(0, "a"), at(3, "b"), at(4, "b")];
        assert_eq!(Problem::new_since(vec![at(2, "b")], &before), []);
        assert_eq!(Problem::new_since(vec![at(0, "b"), at(1, "b"), at(2, "b")], &before), [at(2, "b")]);
        let elsewhere = Problem::new("spec.resources[0].name", "b");
        assert_eq!(Problem::new_since(vec![elsewhere.clone()], &before), [elsewhere]);
        assert_eq!(Problem::new_since(vec![at(9, "c")], &vec![at(0, "a"); MOST_PROBLEMS]), []);
    }
}
