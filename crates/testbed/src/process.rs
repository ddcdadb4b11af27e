//! Child processes that die with their owner.
//!
//! Guarantee: a daemon started by [`spawn`] is gone when its [`Process`] is dropped, and also when the owning process
//! ends in any way, `SIGKILL` included. The kernel does it: `setpriv --pdeathsig KILL` asks for a signal at the death
//! of the parent *thread*, so every spawn happens on one thread that lives as long as the process.

use std::{
    fs::{File, OpenOptions},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

const POLL: Duration = Duration::from_millis(5);
const LOG_TAIL: usize = 4000;

/// Between fork and the call that asks for the death signal the owner may already be gone: the shell checks its parent
/// once more, after the request is in force, before it becomes the daemon.
const CHECK_OWNER_THEN_EXEC: &str = r#"[ "$PPID" = "$0" ] || exit 1; exec "$@""#;

/// Waits for the end of its input, which is the end of the owner, then ends a whole process group.
const END_GROUP_WITH_OWNER: &str = r#"read -r _; kill -s KILL -- "-$0""#;

/// A running (or finished) child process with its log file.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    pid: Pid,
    child: Mutex<Child>,
    guard: Option<GroupGuard>,
}

/// Starts `command` with both outputs appended to `log`.
///
/// Program, arguments, environment changes and working directory of `command` are kept; its standard streams are not.
pub fn spawn(name: &str, command: &Command, log: &Path) -> Result<Process> {
    let output = open_log(log)?;
    let mut leashed = leash(command);
    leashed.stdin(Stdio::null()).stdout(output.try_clone().context("duplicating the log file")?).stderr(output);
    let child = on_spawner(leashed).with_context(|| {
        format!("cannot start {name}: `setpriv` (Debian package util-linux) and `sh` must be installed")
    })?;
    Ok(Process {
        name: name.to_owned(),
        log: log.to_owned(),
        pid: Pid::from_child(&child),
        child: Mutex::new(child),
        guard: None,
    })
}

/// A server written in Go that collects its garbage seldom: of memory there is enough, of processors there is not.
pub(crate) fn in_go(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("GOGC", "400").env("GOMEMLIMIT", "2GiB");
    command
}

/// Like [`spawn`], for a program that starts children of its own: they end with the owner too.
pub fn spawn_family(name: &str, command: &Command, log: &Path) -> Result<Process> {
    let mut process = spawn(name, command, log)?;
    process.guard = Some(GroupGuard::start(process.pid)?);
    Ok(process)
}

/// Runs `command` to its end; the error of a failed run shows the end of its output.
pub fn run(name: &str, command: &Command, log: &Path, timeout: Duration) -> Result<()> {
    let process = spawn(name, command, log)?;
    match process.wait(timeout) {
        Some(status) if status.success() => Ok(()),
        Some(status) => bail!("{name} failed ({status}):\n{}", process.log_tail()),
        None => bail!("{name} did not finish in {timeout:?}:\n{}", process.log_tail()),
    }
}

/// `SIGKILL` to a process that somebody else started.
pub fn kill(pid: i32) -> Result<()> {
    let pid = Pid::from_raw(pid).with_context(|| format!("{pid} is no process"))?;
    kill_process(pid, Signal::KILL).with_context(|| format!("killing process {}", pid.as_raw_nonzero()))
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// `SIGKILL` to the process and everything in its process group.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    pub fn cont(&self) {
        self.signal(Signal::CONT);
    }

    pub fn is_running(&self) -> bool {
        matches!(self.child().try_wait(), Ok(None))
    }

    /// Blocks until the process has ended, at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Ok(Some(status)) = self.child().try_wait() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(POLL);
        }
    }

    /// Resident memory, 0 for a process that has ended.
    pub fn rss_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|value| value.trim().trim_end_matches(" kB").parse().ok())
            .unwrap_or(0)
    }

    /// Everything the process has printed.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// The end of the log, for error messages.
    pub fn log_tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL)..]);
        format!("--- end of {} ---\n{tail}", self.log.display())
    }

    /// An error with the log's end if the process is no longer running.
    pub fn ensure_running(&self) -> Result<()> {
        if self.is_running() {
            return Ok(());
        }
        bail!("{} ended by itself\n{}", self.name, self.log_tail())
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock makes sure that the process is not reaped, and its id not given to another, between check and signal.
    fn signal(&self, signal: Signal) {
        let mut child = self.child();
        if matches!(child.try_wait(), Ok(None)) {
            // The group is made before exec, so it exists as long as the child does.
            let _ = kill_process_group(self.pid, signal).or_else(|_| kill_process(self.pid, signal));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            guard.fire();
        }
        self.kill();
        let _ = self.child().wait();
    }
}

/// A shell that outlives the owner just long enough to end a process group.
#[derive(Debug)]
struct GroupGuard {
    shell: Child,
    owner_lives: Option<ChildStdin>,
}

impl GroupGuard {
    fn start(group: Pid) -> Result<Self> {
        let mut command = Command::new("sh");
        command
            .args(["-c", END_GROUP_WITH_OWNER, &group.as_raw_nonzero().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal reaches the owner's group: the guard must survive it to do its work.
            .process_group(0);
        let mut shell = on_spawner(command).context("starting the shell that ends a process group")?;
        let owner_lives = shell.stdin.take();
        Ok(Self { shell, owner_lives })
    }

    fn fire(&mut self) {
        self.owner_lives.take();
        let _ = self.shell.wait();
    }
}

/// `command`, dying with the thread that starts it.
pub fn leash(command: &Command) -> Command {
    let mut leashed = Command::new("setpriv");
    leashed
        .args(["--pdeathsig", "KILL", "--", "sh", "-c", CHECK_OWNER_THEN_EXEC])
        .arg(std::process::id().to_string())
        .arg(command.get_program())
        .args(command.get_args())
        .process_group(0);
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => leashed.env(key, value),
            None => leashed.env_remove(key),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        leashed.current_dir(dir);
    }
    leashed
}

type Job = (Command, mpsc::Sender<std::io::Result<Child>>);

static SPAWNER: LazyLock<Mutex<mpsc::Sender<Job>>> = LazyLock::new(|| {
    let (jobs, inbox) = mpsc::channel::<Job>();
    thread::Builder::new()
        .name("testbed-spawner".into())
        .spawn(move || {
            for (mut command, reply) in inbox {
                let _ = reply.send(command.spawn());
            }
        })
        .expect("a process can start one more thread");
    Mutex::new(jobs)
});

fn on_spawner(command: Command) -> Result<Child> {
    let (reply, outcome) = mpsc::channel();
    SPAWNER
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send((command, reply))
        .context("the spawner thread has ended")?;
    Ok(outcome.recv().context("the spawner thread has ended")??)
}

fn open_log(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("opening the log file {}", path.display()))
}
