//! Packages of any Debian suite with all that they depend on, downloaded through a private apt.
//!
//! Its state says that nothing is installed, so that even libc comes along. It takes the mirror,
//! proxy and credentials of the machine's own apt, and changes nothing of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::cache::Cache;
use super::command::output;
use crate::interrupt;

const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// What apt wants to find, empty or not.
const FOLDERS: &[&str] =
    &["etc/sources.list.d", "etc/preferences.d", "state/lists/partial", "cache/archives/partial"];

/// The private apt of one suite.
pub(super) struct Apt<'a> {
    cache: &'a Cache<'a>,
    folder: PathBuf,
}

impl Apt<'_> {
    pub(super) fn open<'a>(cache: &'a Cache<'a>, suite: &str) -> Result<Apt<'a>> {
        let apt = Apt { cache, folder: cache.folder.join(format!("apt-{suite}")) };
        for needed in ["/usr/bin/apt-get", "/usr/bin/dpkg-deb", KEYS] {
            ensure!(Path::new(needed).exists(), "{needed} is missing: a Debian machine is needed");
        }
        for folder in FOLDERS {
            fs::create_dir_all(apt.folder.join(folder))?;
        }
        let mirror = apt.mirror()?;
        let mut sources = format!("deb [signed-by={KEYS}] {mirror} {suite} main\n");
        if suite != "sid" {
            let security = format!("{mirror}-security {suite}-security");
            sources.push_str(&format!("deb [signed-by={KEYS}] {security} main\n"));
        }
        fs::write(apt.folder.join("etc/sources.list"), sources)?;
        fs::write(apt.folder.join("status"), "")?;
        fs::write(apt.folder.join("apt.conf"), apt.config()?)?;
        Ok(apt)
    }

    /// Downloads packages with their closure and returns the files.
    pub(super) fn download(&self, packages: &[&str]) -> Result<Vec<PathBuf>> {
        let mut tries = 3;
        loop {
            let files = self.update(tries < 3).and_then(|()| self.try_download(packages));
            tries -= 1;
            match files {
                Err(_) if tries > 0 && !interrupt::asked() => {}
                files => return files,
            }
        }
    }

    /// Lets go of the downloaded files.
    pub(super) fn forget(&self) -> Result<()> {
        output(self.apt().arg("clean")).map(drop)
    }

    fn try_download(&self, packages: &[&str]) -> Result<Vec<PathBuf>> {
        output(self.apt().args(["--download-only", "install"]).args(packages))?;
        let plan = output(self.apt().args(["--simulate", "install"]).args(packages))?;
        let archives = self.folder.join("cache/archives");
        let files: Vec<_> = plan.lines().filter_map(file).map(|name| archives.join(name)).collect();
        let missing = files.iter().find(|file| !file.exists());
        ensure!(missing.is_none() && !files.is_empty(), "apt left out {missing:?}");
        Ok(files)
    }

    /// Brings the index, once; `again` when an old index may be why files are not found.
    fn update(&self, again: bool) -> Result<()> {
        let stamp = self.folder.join("updated");
        if again || !stamp.exists() {
            output(self.apt().arg("update"))?;
            fs::write(stamp, "")?;
        }
        Ok(())
    }

    fn apt(&self) -> Command {
        let mut command = self.cache.command("apt-get");
        command.arg("-c").arg(self.folder.join("apt.conf")).args(["-qq", "-y"]);
        command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    fn mirror(&self) -> Result<String> {
        let mut targets = self.cache.command("apt-get");
        targets.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
        let known = output(&mut targets)?;
        let mut known = known.lines().map(|uri| uri.trim_end_matches('/'));
        let debian = known.find(|uri| uri.ends_with("/debian"));
        Ok(debian.context("no Debian mirror among the sources of apt")?.to_owned())
    }

    /// Hooks of the machine are cleared because they reach for its own caches.
    fn config(&self) -> Result<String> {
        let own = self.folder.display();
        let user = output(self.cache.command("id").arg("-un"))?;
        Ok(format!(
            r#"#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
Dir::Etc "{own}/etc";
Dir::Etc::sourcelist "{own}/etc/sources.list";
Dir::Etc::sourceparts "{own}/etc/sources.list.d";
Dir::Etc::preferencesparts "{own}/etc/preferences.d";
Dir::State "{own}/state";
Dir::State::status "{own}/status";
Dir::Cache "{own}/cache";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
Dir::Log "{own}";
APT::Sandbox::User "{}";
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Keep-Downloaded-Packages "true";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Acquire::Retries "5";
APT::Update::Error-Mode "any";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
"#,
            user.trim(),
        ))
    }
}

/// Reads one line of apt's plan, `Inst name (version suite [arch])…`, as the name of a file.
fn file(line: &str) -> Option<String> {
    let (name, rest) = line.strip_prefix("Inst ")?.split_once(" (")?;
    let name = name.split(':').next()?;
    let version = rest.split(' ').next()?.replace(':', "%3a");
    let arch = rest.split_once('[')?.1.split_once(']')?.0;
    Some(format!("{name}_{version}_{arch}.deb"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_plan_names_a_file() {
        let line = "Inst tzdata (2026a-0 Debian:12/oldstable [all]) []";
        assert_eq!(file(line).unwrap(), "tzdata_2026a-0_all.deb");
        let line = "Inst login:amd64 (1:4.13+dfsg1-1 Debian:12 [amd64])";
        assert_eq!(file(line).unwrap(), "login_1%3a4.13+dfsg1-1_amd64.deb");
        assert_eq!(file("Conf tzdata (2026a-0 Debian:12 [all])"), None);
    }
}
