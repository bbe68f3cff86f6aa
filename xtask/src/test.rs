//! `cargo xtask test`: all of CI. Every step runs and is reported, also after one failed; nothing
//! is skipped because something is missing.

mod docs;
mod examples;
mod features;
mod markdown;
mod tally;

use std::env;
use std::fs::{self, File};
use std::num::NonZero;
use std::process::{Command, ExitCode, Stdio};
use std::thread::{self, ScopedJoinHandle, available_parallelism, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use clap::ValueEnum;

use crate::world::{Run, World, tools};
use crate::{cargo, interrupt, root, table};
use tally::Tally;

/// What says how many tests run at once.
const THREADS: &str = "RUST_TEST_THREADS";

/// What the names of the random traces begin with.
const TRACES: &str = "differential::";

/// How long an example, or a command of the documentation, may take.
const SOON: Duration = Duration::from_secs(300);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Runs only the tests whose names contain this; implies `--only test`
    filter: Option<String>,
    /// Runs only these steps
    #[arg(long, value_delimiter = ',', value_name = "STEP,…")]
    only: Vec<Step>,
    /// Leaves the servers running; `cargo xtask down` stops them
    #[arg(long)]
    keep: bool,
    /// Passed on to the test programs
    #[arg(last = true)]
    rest: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Cargo.lock fits the manifests
    Lock,
    /// The code is formatted
    Fmt,
    /// Clippy has nothing to say, and the crate of brokers compiles with any one of them
    Clippy,
    /// The program and its tests build
    Build,
    /// Unit, documentation, contract, integration and browser tests pass, on real servers
    Test,
    /// Each example ends well
    Examples,
    /// The documentation builds, its links lead somewhere, its marked commands run
    Docs,
}

pub(crate) fn test(args: &Args) -> Result<ExitCode> {
    let mut run = Run::open(&root())?;
    interrupt::listen(run.folder())?;
    let (mut report, mut world) = (Report::default(), None);
    let steps = args.steps();
    thread::scope(|scope| {
        // Packages come while the compiler works.
        let mut getting = steps.contains(&Step::Test).then(|| scope.spawn(|| World::get(&run)));
        report.step("tools", || tools(&run));
        for step in steps {
            match step {
                Step::Lock => report.step("lock", || lock(&run)),
                Step::Fmt => report.step("fmt", || cargo_step(&run, &["fmt", "--all", "--check"])),
                Step::Clippy => {
                    report.step("clippy", || {
                        let all = ["clippy", "--quiet", "--workspace", "--all-targets", "--"];
                        cargo_step(&run, &[&all[..], &["-D", "warnings"]].concat())
                    });
                    report.step("features", || features::check(&run));
                }
                Step::Build => report.step("build", || build(&run)),
                Step::Test => {
                    report.step("servers", || {
                        getting.take().map(ScopedJoinHandle::join);
                        servers(&run, &mut world)
                    });
                    let mut tally = Tally::default();
                    report.step("test", || tests(&run, args, &mut tally));
                    report.tally = tally;
                }
                Step::Examples => report.step("examples", || examples::run(&run)),
                Step::Docs => report.step("docs", || docs::check(&run)),
            }
        }
    });
    if let (true, Some(world)) = (args.keep, &mut world) {
        world.keep();
        run.keep();
        world.print();
        println!("export POSTBOX_WORLD={}", run.file().display());
    }
    drop(world);
    drop(run);
    Ok(report.close())
}

impl Args {
    fn steps(&self) -> Vec<Step> {
        match (&self.filter, self.only.is_empty()) {
            (Some(_), true) => vec![Step::Test],
            (None, true) => Step::value_variants().to_vec(),
            (_, false) => {
                let chosen = |step: &&Step| self.only.contains(step);
                Step::value_variants().iter().filter(chosen).copied().collect()
            }
        }
    }
}

/// What each step came to.
#[derive(Default)]
struct Report {
    rows: Vec<[String; 3]>,
    failed: bool,
    tally: Tally,
}

impl Report {
    fn step(&mut self, name: &str, step: impl FnOnce() -> Result<()>) {
        if interrupt::asked() {
            self.failed = true;
            return;
        }
        println!("== {name}");
        let began = Instant::now();
        let done = step();
        let took = format!("{:.1} s", began.elapsed().as_secs_f64());
        if let Err(error) = &done {
            println!("{name} failed: {error:#}");
            self.failed = true;
        }
        let result = if done.is_ok() { "ok" } else { "FAILED" };
        self.rows.push([name.to_owned(), result.to_owned(), took]);
    }

    fn close(self) -> ExitCode {
        println!();
        table::print(["step", "result", "time"], &self.rows);
        if interrupt::asked() {
            println!("interrupted");
        }
        println!("{} passed, {} failed", self.tally.passed, self.tally.failed);
        if self.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// Makes a cargo command that ends with the run.
fn run_cargo(run: &Run) -> Command {
    let mut command = run.script(cargo().get_program());
    command.current_dir(root());
    command
}

/// Fails when Cargo.lock does not fit the manifests. Building `cargo xtask` has then mended it
/// already, so CI, which tests a commit, also asks whether it is still the one of the commit.
fn lock(run: &Run) -> Result<()> {
    let mut tree = run_cargo(run);
    tree.args(["tree", "--quiet", "--locked", "--workspace", "--depth=0"]);
    finish(tree.stdout(Stdio::null()))?;
    if env::var_os("CI").is_some_and(|ci| ci == "true") && root().join(".git").exists() {
        let mut diff = run.command("git");
        diff.args(["diff", "--exit-code", "HEAD", "--", "Cargo.lock"]).current_dir(root());
        finish(&mut diff).context("Cargo.lock was not committed with the manifests")?;
    }
    Ok(())
}

/// Builds the program and all tests at once: every crate with one set of features, and once.
fn build(run: &Run) -> Result<()> {
    cargo_step(run, &["test", "--quiet", "--workspace", "--no-run"])
}

fn cargo_step(run: &Run, args: &[&str]) -> Result<()> {
    finish(run_cargo(run).args(args))
}

/// Runs a command to its end and fails when it does.
fn finish(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("{program} does not start"))?;
    interrupt::check()?;
    ensure!(status.success(), "{program}: {status}");
    Ok(())
}

/// Runs a command that should end by itself soon. What it printed is shown when it failed.
fn finish_soon(run: &Run, command: &mut Command) -> Result<()> {
    let printed = run.folder().join("printed");
    let file = File::create(&printed)?;
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.stdout(file.try_clone()?).stderr(file).spawn().context(program)?;
    let began = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break status.to_string();
        }
        if began.elapsed() > SOON {
            child.kill()?;
            break format!("it did not end within {} s", SOON.as_secs());
        }
        sleep(Duration::from_millis(20));
    };
    interrupt::check()?;
    let success = child.wait()?.success();
    ensure!(success, "{ended}\n{}", fs::read_to_string(&printed).unwrap_or_default());
    Ok(())
}

fn servers(run: &Run, slot: &mut Option<World>) -> Result<()> {
    let (world, errors) = World::start(run, &[])?;
    world.print();
    *slot = Some(world);
    if errors.is_empty() {
        return Ok(());
    }
    let all = errors.iter().map(|error| format!("{error:#}")).collect::<Vec<_>>().join("\n");
    Err(anyhow!("{all}\nThe tests that need it fail; try `cargo xtask up` on its own."))
}

/// How many tests run at once: most of the time they wait, for a server or for a lease.
fn threads() -> usize {
    2 * cores()
}

fn cores() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// Runs every test. The random traces, which never wait for a moment, run beside all others in a
/// process of their own, which gives way to them (its servers do not): the others mostly wait, and
/// mind a busy machine. What is passed over on the one side is what is asked for on the other.
fn tests(run: &Run, args: &Args, tally: &mut Tally) -> Result<()> {
    let mut all = test_command(run, &[], &[]);
    all.args(&args.filter).arg("--").args(&args.rest);
    if args.filter.is_some() || !args.rest.is_empty() {
        return tests_of(all, threads(), tally, |line| println!("{line}"));
    }
    let mut traces = test_command(run, &["nice", "-n", "10"], &["--lib", "--bins", "--tests"]);
    traces.args([TRACES, "--"]);
    all.args(["--skip", TRACES]);
    let (mut aside, mut told) = (Tally::default(), Vec::new());
    let (rest, traces) = thread::scope(|scope| {
        let keep = |line: &str| told.push(line.to_owned());
        let traces = scope.spawn(|| tests_of(traces, cores(), &mut aside, keep));
        let rest = tests_of(all, threads(), tally, |line| println!("{line}"));
        (rest, traces.join().unwrap_or_else(|_| Err(anyhow!("the traces were not followed"))))
    });
    println!("\nthe traces, which ran beside these:\n{}", told.join("\n"));
    tally.add(&aside);
    match (rest, traces.context("the traces")) {
        (Err(rest), Err(traces)) => Err(anyhow!("{rest:#}; {traces:#}")),
        (rest, traces) => rest.and(traces),
    }
}

/// Makes a cargo command that tests, begun by other words.
fn test_command(run: &Run, words: &[&str], only: &[&str]) -> Command {
    let mut command = match words {
        [] => run_cargo(run),
        [first, words @ ..] => {
            let mut command = run.script(first);
            command.args(words).arg(cargo().get_program()).current_dir(root());
            command
        }
    };
    command.args(["test", "--quiet", "--workspace", "--no-fail-fast"]).args(only);
    command.env("POSTBOX_WORLD", run.file()).env("CARGO_TERM_COLOR", "never");
    command
}

fn tests_of(
    mut command: Command,
    threads: usize,
    tally: &mut Tally,
    tell: impl FnMut(&str),
) -> Result<()> {
    if env::var_os(THREADS).is_none() {
        command.env(THREADS, threads.to_string());
    }
    let status = tally.follow(&mut command, tell)?;
    interrupt::check()?;
    ensure!(status.success(), "cargo test: {status}");
    ensure!(tally.ignored == 0, "{} tests are ignored; none may be", tally.ignored);
    Ok(())
}
