//! Debian packages unpacked into a folder of their own and started with their own libraries.
//!
//! Needs no root, runs no maintainer script, starts no service, and lets several versions of one
//! server live side by side.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use super::apt::Apt;
use super::cache::Cache;
use super::command::output;

/// What to unpack.
pub(super) struct Packages {
    pub(super) suite: &'static str,
    pub(super) names: &'static [&'static str],
    /// Programs, or folders of programs, that shall start by their plain path. The last letter of a
    /// folder's name may be `*`, where the name ends in a version.
    pub(super) programs: &'static [&'static str],
}

impl Packages {
    /// Returns the folder that holds them, unpacked now or earlier.
    pub(super) fn unpacked(&self, cache: &Cache<'_>, name: &str) -> Result<PathBuf> {
        let Packages { suite, names, programs } = self;
        let home = cache.folder.join(name);
        let recipe = format!("{} {suite} {names:?} {programs:?}", home.display());
        cache.once(name, &recipe, |folder| {
            println!("getting {name} from {suite}");
            let began = Instant::now();
            let apt = Apt::open(cache, suite)?;
            let files = apt.download(&[names, &["patchelf"][..]].concat())?;
            for file in &files {
                output(cache.command("dpkg-deb").arg("-x").arg(file).arg(folder))?;
            }
            for unread in ["doc", "man", "locale"] {
                let _ = fs::remove_dir_all(folder.join("usr/share").join(unread));
            }
            inward(folder, folder)?;
            Prefix::new(folder, &home)?.patch(cache, programs)?;
            apt.forget()?;
            println!("got {} packages in {} s", files.len(), began.elapsed().as_secs());
            Ok(())
        })
    }
}

/// Returns a path inside a prefix, of which the last letter of a folder's name may be `*`. What is
/// not there is returned as it is written.
pub(super) fn find(prefix: &Path, path: &str) -> PathBuf {
    let step = |folder: PathBuf, name: &str| {
        let named = |path: &PathBuf| {
            let start = name.strip_suffix('*').zip(path.file_name());
            start.is_some_and(|(start, name)| name.to_string_lossy().starts_with(start))
        };
        entries(&folder).into_iter().find(named).unwrap_or_else(|| folder.join(name))
    };
    path.split('/').fold(prefix.to_owned(), step)
}

/// Returns where the libraries of a prefix lie.
pub(super) fn libraries(prefix: &Path) -> Result<[PathBuf; 2]> {
    let loader = prefix.join("ld.so").read_link().context("the prefix has no loader")?;
    let triple = loader.parent().and_then(Path::file_name).context("the loader has no folder")?;
    Ok([prefix.join("lib").join(triple), prefix.join("usr/lib").join(triple)])
}

/// A prefix that lies in one folder and will be renamed to another.
struct Prefix<'a> {
    now: &'a Path,
    then: &'a Path,
}

impl Prefix<'_> {
    /// Finds the loader of the prefix and gives it a path that is the same on every machine.
    fn new<'a>(now: &'a Path, then: &'a Path) -> Result<Prefix<'a>> {
        let loader = loader(now).context("the packages hold no loader")?;
        symlink(loader.strip_prefix(now)?, now.join("ld.so"))?;
        Ok(Prefix { now, then })
    }

    /// Writes the future loader and libraries into programs.
    fn patch(&self, cache: &Cache<'_>, programs: &[&str]) -> Result<()> {
        let join = |libraries: [PathBuf; 2]| {
            let [own, usr] = libraries;
            format!("{}:{}", own.display(), usr.display())
        };
        let now = join(libraries(self.now)?);
        // RPATH, and not the newer RUNPATH, because libraries do not inherit the latter.
        let then = join(libraries(self.now)?.map(|path| {
            let inside = path.strip_prefix(self.now).map(Path::to_owned).unwrap_or_default();
            self.then.join(inside)
        }));
        let patchelf = || {
            let mut patchelf = cache.command(self.now.join("ld.so"));
            patchelf.arg("--library-path").arg(&now).arg(self.now.join("usr/bin/patchelf"));
            patchelf
        };
        for program in programs.iter().map(|program| find(self.now, program)) {
            for file in elf_files(&program)? {
                let own = output(patchelf().arg("--print-rpath").arg(&file))?;
                let path = siblings(&own) + &then;
                let mut patch = patchelf();
                patch.arg("--set-interpreter").arg(self.then.join("ld.so"));
                output(patch.args(["--force-rpath", "--set-rpath", &path]).arg(file))?;
            }
        }
        Ok(())
    }
}

/// Returns the part of a library path by which a program finds what lies beside it.
fn siblings(path: &str) -> String {
    let own = path.trim().split(':').filter(|part| part.starts_with("$ORIGIN"));
    own.map(|part| format!("{part}:")).collect()
}

/// Lets absolute links lead to what lies in the prefix, where it does.
fn inward(folder: &Path, prefix: &Path) -> Result<()> {
    for path in entries(folder) {
        match path.read_link() {
            Ok(target) if target.is_absolute() => {
                let inside = prefix.join(target.strip_prefix("/")?);
                if inside.symlink_metadata().is_ok() {
                    let up = path.strip_prefix(prefix)?.components().skip(1).map(|_| "..");
                    let inside = inside.strip_prefix(prefix)?;
                    fs::remove_file(&path)?;
                    symlink(up.collect::<PathBuf>().join(inside), &path)?;
                }
            }
            Ok(_) => {}
            Err(_) if path.is_dir() => inward(&path, prefix)?,
            Err(_) => {}
        }
    }
    Ok(())
}

/// Finds the loader itself: links to it may be absolute and lead out of the prefix.
fn loader(prefix: &Path) -> Option<PathBuf> {
    let is_loader = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let named = name.starts_with("ld-linux") && name.contains(".so.")
            || name.starts_with("ld-2.") && name.ends_with(".so");
        named && path.symlink_metadata().is_ok_and(|it| it.is_file())
    };
    ["lib", "usr/lib", "lib64"]
        .into_iter()
        .flat_map(|folder| entries(&prefix.join(folder)))
        .flat_map(|path| if path.is_dir() { entries(&path) } else { vec![path] })
        .find(|path| is_loader(path))
}

fn elf_files(path: &Path) -> Result<Vec<PathBuf>> {
    let files = if path.is_dir() { entries(path) } else { vec![path.to_owned()] };
    let is_elf = |path: &PathBuf| -> Result<bool> {
        let mut magic = [0; 4];
        let mut file = File::open(path).with_context(|| path.display().to_string())?;
        Ok(file.read(&mut magic)? == 4 && magic == *b"\x7fELF")
    };
    let real = |path: &PathBuf| path.symlink_metadata().is_ok_and(|it| it.is_file());
    let mut programs = Vec::new();
    for file in files.into_iter().filter(real) {
        if is_elf(&file)? {
            programs.push(file);
        }
    }
    Ok(programs)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_keeps_its_way_to_its_siblings() {
        assert_eq!(siblings("$ORIGIN:/usr/lib:$ORIGIN/../lib\n"), "$ORIGIN:$ORIGIN/../lib:");
        assert_eq!(siblings("\n"), "");
    }

    #[test]
    fn an_absolute_link_leads_into_the_prefix_if_it_can() {
        let name = format!("postbox-prefix-{}", std::process::id());
        let prefix = std::env::temp_dir().join(name);
        let at = |path: &str| prefix.join(path);
        fs::create_dir_all(at("usr/lib/x")).unwrap();
        fs::create_dir_all(at("etc")).unwrap();
        fs::write(at("etc/x.conf"), "own").unwrap();
        symlink("/etc/x.conf", at("usr/lib/x/conf")).unwrap();
        symlink("/etc/only-outside", at("usr/lib/x/out")).unwrap();
        inward(&prefix, &prefix).unwrap();
        assert_eq!(fs::read_to_string(at("usr/lib/x/conf")).unwrap(), "own");
        let link = at("usr/lib/x/conf").read_link().unwrap();
        assert_eq!(link, Path::new("../../../etc/x.conf"));
        assert_eq!(at("usr/lib/x/out").read_link().unwrap(), Path::new("/etc/only-outside"));
        fs::remove_dir_all(&prefix).unwrap();
    }
}
