//! `postbox completions SHELL`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::End;

/// Print shell completions.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  postbox completions bash > /etc/bash_completion.d/postbox
  postbox completions zsh > \"${fpath[1]}/_postbox\"
  postbox completions fish > ~/.config/fish/completions/postbox.fish")]
pub(crate) struct Completions {
    /// Which shell.
    shell: Shell,
}

impl Completions {
    /// Prints them.
    pub(crate) fn answer(&self) -> anyhow::Result<End> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "postbox", &mut script);
        std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?;
        Ok(End::Fine)
    }
}
