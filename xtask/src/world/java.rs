//! Java and Maven: the machine's own when it has both, else Debian's packages; and jars, copied
//! once with all that they depend on.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::Installed;
use super::cache::Cache;
use super::command::output;
use super::debian::{Packages, find};

/// The least that the brokers and their clients are built for.
const LEAST: u32 = 17;

const PACKAGES: Packages = Packages {
    suite: "bookworm",
    names: &["openjdk-17-jdk-headless", "maven", "ca-certificates"],
    programs: &["usr/lib/jvm/java-17-openjdk-*/bin"],
};

/// Where they lie in the cache.
const FOLDER: &str = "java";

const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

/// The roots that the machine trusts, in the form of most programs and in that of Java.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
const ROOTS_OF_JAVA: &str = "/etc/ssl/certs/java/cacerts";

/// Turns certificates as most programs keep them into a file of Java's own.
const TRUST: &str = r#"
import java.io.*;
import java.security.KeyStore;
import java.security.cert.*;
class Trust {
    public static void main(String[] args) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        int count = 0;
        try (InputStream in = new FileInputStream(args[0])) {
            CertificateFactory factory = CertificateFactory.getInstance("X.509");
            for (Certificate each : factory.generateCertificates(in))
                store.setCertificateEntry("root" + count++, each);
        }
        try (OutputStream out = new FileOutputStream(args[1])) {
            store.store(out, "changeit".toCharArray());
        }
    }
}
"#;

/// A Java that runs servers and single source files, and a Maven that gets jars.
pub(super) struct Java {
    /// `java` itself, by a path that needs no environment.
    pub(super) program: PathBuf,
    mvn: PathBuf,
    /// Where the packages lie; none when the machine's own is used.
    prefix: Option<PathBuf>,
}

impl Java {
    /// Finds both on this machine, or brings them there.
    pub(super) fn get(cache: &Cache<'_>) -> Result<Java> {
        match own() {
            Some(own) => Ok(own),
            None => Ok(Java::in_prefix(PACKAGES.unpacked(cache, FOLDER)?)),
        }
    }

    /// Returns `java` itself as [`Java::get`] found it. `installed` is any server of the cache.
    pub(super) fn program(installed: &Installed) -> Result<PathBuf> {
        let cache = installed.prefix.parent().context("the cache")?;
        Ok(own().unwrap_or_else(|| Java::in_prefix(cache.join(FOLDER))).program)
    }

    fn in_prefix(prefix: PathBuf) -> Java {
        let program = find(&prefix, PACKAGES.programs[0]).join("java");
        Java { program, mvn: prefix.join("usr/share/maven/bin/mvn"), prefix: Some(prefix) }
    }

    /// Returns a folder of the cache with the jars of these coordinates (`group:artifact:version`)
    /// and of all that they need to run, copied now or earlier.
    pub(super) fn jars(
        &self,
        cache: &Cache<'_>,
        name: &str,
        coordinates: &[&str],
    ) -> Result<PathBuf> {
        let pom = pom(coordinates)?;
        cache.once(name, &pom, |folder| {
            println!("getting {name} by Maven");
            let began = Instant::now();
            fs::write(folder.join("pom.xml"), &pom)?;
            let mut copy = self.maven(cache)?;
            copy.arg("-f").arg(folder.join("pom.xml")).arg(COPY).arg("-DincludeScope=runtime");
            copy.arg(format!("-DoutputDirectory={}", folder.display()));
            output(&mut copy)?;
            let jars = fs::read_dir(folder)?.count() - 1;
            println!("got {jars} jars in {} s", began.elapsed().as_secs());
            Ok(())
        })
    }

    fn maven(&self, cache: &Cache<'_>) -> Result<Command> {
        let mut maven = cache.command(&self.mvn);
        let home = self.program.ancestors().nth(2).context("java has a home")?;
        maven.env("JAVA_HOME", home).args(["-q", "-B", "-ntp"]);
        maven.arg(format!("-Dmaven.repo.local={}", cache.folder.join("maven").display()));
        if let (Some(prefix), false) = (&self.prefix, Path::new(ROOTS_OF_JAVA).exists()) {
            let roots = self.roots(cache, prefix)?.join("roots.p12");
            maven.arg(format!("-Djavax.net.ssl.trustStore={}", roots.display()));
        }
        Ok(maven)
    }

    /// Makes Java's own file of roots, which the unpacked package lacks: its script would make it.
    fn roots(&self, cache: &Cache<'_>, prefix: &Path) -> Result<PathBuf> {
        cache.once("java-roots", TRUST, |folder| {
            let known = folder.join("roots.pem");
            if fs::copy(ROOTS, &known).is_err() {
                let all = fs::read_dir(prefix.join("usr/share/ca-certificates/mozilla"))?;
                let all: Result<Vec<_>, _> = all.map(|it| fs::read(it?.path())).collect();
                fs::write(&known, all?.concat())?;
            }
            fs::write(folder.join("Trust.java"), TRUST)?;
            let mut make = cache.command(&self.program);
            make.arg(folder.join("Trust.java")).arg(known).arg(folder.join("roots.p12"));
            output(&mut make).map(drop)
        })
    }
}

/// Finds the machine's own, if it has both and its Java is new enough and can compile.
fn own() -> Option<Java> {
    let (program, mvn) = (in_path("java")?.canonicalize().ok()?, in_path("mvn")?);
    let compiles = program.with_file_name("javac").exists();
    let told = output(Command::new(&program).arg("--version")).ok()?;
    (compiles && major(&told)? >= LEAST).then_some(Java { program, mvn, prefix: None })
}

/// Reads `openjdk 17.0.15 2025-04-15` as 17.
fn major(told: &str) -> Option<u32> {
    told.split_whitespace().nth(1)?.split(['.', '-', '+']).next()?.parse().ok()
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

fn pom(coordinates: &[&str]) -> Result<String> {
    let mut needed = String::new();
    for coordinate in coordinates {
        let parts: Vec<_> = coordinate.split(':').collect();
        ensure!(parts.len() == 3, "{coordinate} is not group:artifact:version");
        needed.push_str(&format!(
            "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>\
             </dependency>\n",
            parts[0], parts[1], parts[2],
        ));
    }
    Ok(format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\n\
         <groupId>postbox</groupId><artifactId>jars</artifactId><version>1</version>\
         <packaging>pom</packaging>\n<dependencies>\n{needed}</dependencies></project>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_java_is_read_as_it_tells_it() {
        assert_eq!(major("openjdk 17.0.15 2025-04-15\nOpenJDK Runtime"), Some(17));
        assert_eq!(major("openjdk 21-ea 2023-09-19"), Some(21));
        assert_eq!(major("nothing"), None);
    }

    #[test]
    fn coordinates_have_three_parts() {
        assert!(pom(&["a:b:1"]).unwrap().contains("<artifactId>b</artifactId><version>1<"));
        assert!(pom(&["a:b"]).is_err());
    }
}
