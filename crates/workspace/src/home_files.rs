//! Files of a home directory that programs execute or read as configuration: a shell when it starts, a desktop at login, git and package managers in
//! any directory.
//!
//! They have this meaning in a home directory only, so they are protected only there: `bin` and `.profile` of a project are ordinary files.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::location::real_location;
use crate::name_fold::fold;

/// What may be read and not be changed, with everything below it, relative to a home directory.
pub const HOME_AUTORUN_FILES: &[&str] = &[
    // Shells.
    ".profile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".bashrc.d",
    ".bash_completion",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".zsh",
    ".oh-my-zsh",
    ".kshrc",
    ".mkshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".inputrc",
    ".config/bash",
    ".config/zsh",
    ".config/fish",
    ".config/nushell",
    ".config/powershell",
    ".config/starship.toml",
    // Login sessions, and their environment.
    ".pam_environment",
    ".config/environment.d",
    ".config/plasma-workspace",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".xserverrc",
    ".Xmodmaprc",
    ".config/autostart",
    ".config/autostart-scripts",
    ".config/systemd",
    ".local/share/systemd",
    ".local/share/dbus-1",
    ".local/share/applications",
    ".config/mimeapps.list",
    ".config/i3",
    ".config/sway",
    ".config/hypr",
    ".crontab",
    "Library/LaunchAgents",
    // Programs found on `PATH` before those of the system.
    "bin",
    ".bin",
    ".local/bin",
    ".local/lib",
    ".cargo/bin",
    ".cargo/env",
    ".cargo/config",
    ".cargo/config.toml",
    ".rustup",
    ".npm-global",
    ".nvm",
    ".volta",
    ".bun",
    ".deno",
    ".pyenv",
    ".rbenv",
    ".asdf",
    ".asdfrc",
    ".sdkman",
    ".local/share/mise",
    ".config/mise",
    "go/bin",
    // Version control, editors, terminals, debuggers and interpreters that load code from the home directory.
    ".gitconfig",
    ".config/git",
    ".hgrc",
    ".config/hg",
    ".config/jj",
    ".jjconfig.toml",
    ".config/gh",
    ".vim",
    ".vimrc",
    ".gvimrc",
    ".config/nvim",
    ".emacs",
    ".emacs.d",
    ".config/emacs",
    ".nanorc",
    ".config/nano",
    ".config/helix",
    ".config/zed",
    ".config/Code",
    ".config/VSCodium",
    ".config/Cursor",
    ".vscode",
    ".vscode-server",
    ".cursor",
    ".config/JetBrains",
    ".tmux.conf",
    ".config/tmux",
    ".screenrc",
    ".config/kitty",
    ".config/alacritty",
    ".config/wezterm",
    ".wezterm.lua",
    ".config/ghostty",
    ".lesskey",
    ".lessfilter",
    ".gdbinit",
    ".config/gdb",
    ".lldbinit",
    ".pythonrc",
    ".pythonrc.py",
    ".ipython",
    ".jupyter",
    ".config/pip",
    ".pip",
    ".config/pypoetry",
    ".config/uv",
    ".irbrc",
    ".pryrc",
    ".gemrc",
    ".Rprofile",
    ".Renviron",
    ".julia/config",
    ".ghci",
    ".psqlrc",
    ".sqliterc",
    ".mailcap",
    ".yarnrc",
    ".gradle",
    ".m2/settings.xml",
    ".sbt",
    ".ansible.cfg",
    ".curlrc",
    ".wgetrc",
    ".editrc",
    ".direnvrc",
    ".config/direnv",
    ".nix-profile",
    ".config/nix",
    ".config/nixpkgs",
    ".config/home-manager",
    // Other agents.
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".qwen",
    ".config/opencode",
    ".config/goose",
    ".config/amp",
    ".config/crush",
    ".aider.conf.yml",
    ".continue",
    ".codeium",
    ".copilot",
    ".factory",
    ".kiro",
    ".config/claude",
    // This gate.
    ".config/toolgate",
    ".local/state/toolgate",
];

/// The protected places of a mount that is a home directory, contains one or lies in one; folded. The target of a symlink among them is protected
/// too: dotfiles are often kept elsewhere and linked. A mount whose root is itself such a place was chosen as a workspace and is not protected.
pub(crate) fn home_autorun_places(root: &Path, homes: &[PathBuf]) -> Vec<String> {
    let near = homes.iter().filter(|home| home.starts_with(root) || root.starts_with(home));
    let paths = near.flat_map(|home| HOME_AUTORUN_FILES.iter().map(move |rule| home.join(rule)));
    let mut places: Vec<String> = paths.flat_map(|path| places_of(root, &path)).collect();
    places.sort_unstable();
    places.dedup();
    places
}

fn places_of(root: &Path, path: &Path) -> Vec<String> {
    let Ok(place) = path.strip_prefix(root) else { return Vec::new() };
    let real = real_path(path).filter(|real| real != path);
    let real = real.as_deref().and_then(|real| real.strip_prefix(root).ok());
    let places = std::iter::once(place).chain(real).filter(|place| !place.as_os_str().is_empty());
    places.map(|place| fold(place).into_owned()).collect()
}

fn real_path(path: &Path) -> Option<PathBuf> {
    use std::os::fd::AsFd as _;
    let handle = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    real_location(handle.as_fd()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_counts_where_it_is() {
        let places = |root: &str, home: &str| home_autorun_places(Path::new(root), &[PathBuf::from(home)]);
        assert!(places("/nowhere/u", "/nowhere/u").contains(&".bashrc".to_owned()));
        assert!(places("/nowhere", "/nowhere/U").contains(&"u/.config/fish".to_owned()));
        assert!(places("/nowhere/u", "/nowhere/u").contains(&".config/code".to_owned()));
        assert_eq!(places("/nowhere/u/.config/nvim", "/nowhere/u"), Vec::<String>::new());
        assert!(places("/nowhere/u/.config", "/nowhere/u").contains(&"git".to_owned()));
        assert_eq!(places("/nowhere/u/project", "/nowhere/u"), Vec::<String>::new());
        assert_eq!(places("/elsewhere", "/nowhere/u"), Vec::<String>::new());
    }
}
