//! Runs each example. Everything in the folder `examples/` besides pages for people is one: a
//! folder with an executable `run`, or the source of a cargo example. One that does not end fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{finish, finish_soon, run_cargo};
use crate::root;
use crate::world::Run;

pub(super) fn run(run: &Run) -> Result<()> {
    let folder = root().join("examples").canonicalize().context("examples/")?;
    let programs = cargo_examples(run, &folder)?;
    let mut scripts = Vec::new();
    for entry in fs::read_dir(&folder).context("examples/")? {
        let path = entry?.path();
        if path.join("run").is_file() {
            scripts.push(path.join("run"));
        } else if path.extension().is_none_or(|ext| ext != "md") && !programs.owns(&path) {
            bail!("{} is no example: it has no `run` and cargo does not know it", path.display());
        }
    }
    scripts.sort();
    ensure!(!scripts.is_empty() || !programs.names.is_empty(), "examples/ holds no example");
    for script in scripts {
        println!("{}", script.strip_prefix(root()).unwrap_or(&script).display());
        let home = script.parent().unwrap_or(&folder);
        let mut command = run.script(&script);
        // A free port, so that the consoles of two runs do not meet.
        command.current_dir(home).env("POSTBOX__ADMIN__LISTEN", "127.0.0.1:0");
        finish_soon(run, &mut command).with_context(|| script.display().to_string())?;
    }
    // With the features of the whole workspace, as the tests: nothing is built twice.
    finish(run_cargo(run).args(["build", "--quiet", "--workspace", "--examples"]))?;
    for (package, name) in programs.names {
        println!("{package}: {name}");
        let mut program = run.script(programs.folder.join(&name));
        finish_soon(run, program.current_dir(root())).with_context(|| name.clone())?;
    }
    Ok(())
}

/// The examples that cargo knows.
struct Known {
    names: BTreeSet<(String, String)>,
    sources: Vec<PathBuf>,
    /// Where the programs are built.
    folder: PathBuf,
}

impl Known {
    fn owns(&self, path: &Path) -> bool {
        self.sources.iter().any(|source| source.starts_with(path))
    }
}

fn cargo_examples(run: &Run, folder: &Path) -> Result<Known> {
    let mut command = run_cargo(run);
    command.args(["metadata", "--format-version=1", "--no-deps", "--offline"]);
    let metadata: Value = serde_json::from_slice(&command.output()?.stdout)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let built = PathBuf::from(text(&metadata["target_directory"])).join("debug/examples");
    let mut known = Known { names: BTreeSet::new(), sources: Vec::new(), folder: built };
    for package in list(&metadata["packages"]) {
        for target in list(&package["targets"]) {
            let source = PathBuf::from(text(&target["src_path"])).canonicalize()?;
            let example = list(&target["kind"]).contains(&Value::from("example"));
            if example && source.starts_with(folder) {
                known.names.insert((text(&package["name"]), text(&target["name"])));
                known.sources.push(source);
            }
        }
    }
    Ok(known)
}
