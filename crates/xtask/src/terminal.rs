//! What people see: colours on a terminal only, times with one decimal.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use anyhow::Result;

pub(crate) fn bold(text: &str) -> String {
    painted("1", text)
}

pub(crate) fn dim(text: &str) -> String {
    painted("2", text)
}

pub(crate) fn green(text: &str) -> String {
    painted("32", text)
}

fn painted(code: &str, text: &str) -> String {
    if std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Does `work` and says how long it took.
pub(crate) fn timed<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let clock = Instant::now();
    println!("{}", dim(&format!("{what} ...")));
    let value = work()?;
    println!("{} {what}, {}", green("ok"), seconds(clock.elapsed()));
    Ok(value)
}
