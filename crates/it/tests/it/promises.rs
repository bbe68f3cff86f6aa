//! The table of promises and tests is true: every test that it names is there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, iter};

/// What is promised, but not built yet.
const NOT_YET: [u8; 2] = [8, 9];

#[test]
fn every_promise_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/notes/promises-and-tests.md")).unwrap();
    let tests = functions(&root.join("crates"));
    let mut promised = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with("| I")) {
        let number: u8 = row[3..].split(' ').next().unwrap().parse().unwrap();
        promised.insert(number);
        let named: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "I{number} has no test");
        for name in named {
            assert!(tests.contains(name), "I{number} names {name}, which is not there");
        }
    }
    assert_eq!(promised, (1..=13).filter(|number| !NOT_YET.contains(number)).collect());
}

/// Returns the name of every function under a folder.
fn functions(folder: &Path) -> BTreeSet<String> {
    let mut open = vec![folder.to_owned()];
    let files = iter::from_fn(move || {
        loop {
            let path: PathBuf = open.pop()?;
            if !path.is_dir() {
                return Some(path);
            }
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
    });
    let rust = files.filter(|path| path.extension().is_some_and(|kind| kind == "rs"));
    let name = |text: &str| {
        text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    };
    rust.flat_map(|path| {
        let text = fs::read_to_string(path).unwrap();
        text.split("fn ").skip(1).map(name).collect::<Vec<String>>()
    })
    .collect()
}
