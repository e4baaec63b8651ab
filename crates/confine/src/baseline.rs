//! The baseline: the protected files of a mount before commands ran in it. Later scans are compared with it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use toolgate_workspace::internals::{AutorunTarget, FileIdentity, fold};

use crate::codec::Codec;
use crate::mount_tree::MountTree;
use crate::scanner::{BaselineFile, Protection, ScanResult};

/// The state of a mount before commands ran. All places are relative to the mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Baseline {
    /// Every file that a later scan judges.
    pub(super) known: HashMap<PathBuf, BaselineFile>,
    /// Directories that the walk did not enter, so that their content is unknown.
    pub(super) hidden: HashSet<PathBuf>,
    /// Files that git executes or reads as configuration, sorted by place.
    pub(super) targets: Vec<AutorunTarget>,
    /// Symlinks with a protected name: they cannot have an overlay.
    pub(super) links: HashMap<PathBuf, FileIdentity>,
    pub(super) repositories: HashSet<PathBuf>,
    /// The gate's own files and directories, as folded places. They differ between gates.
    pub(super) own: HashSet<PathBuf>,
}

impl Baseline {
    /// Takes the baseline out of the result of the first walk.
    pub(super) fn from_scan(seen: &mut ScanResult, ground: &MountTree<'_>) -> Self {
        let is_hidden = |(place, seal): &(PathBuf, Protection)| {
            matches!(seal, Protection::Mask { directory: true }).then(|| place.clone())
        };
        let mut targets = std::mem::take(&mut seen.targets);
        targets.sort_by(|one, other| one.path().cmp(other.path()));
        Self {
            known: std::mem::take(&mut seen.known),
            hidden: seen.protections.iter().filter_map(is_hidden).collect(),
            targets,
            links: seen.links.iter().cloned().collect(),
            repositories: seen.repositories.iter().cloned().collect(),
            own: ground.gate_owned_places().collect(),
        }
    }

    /// Replaces what was seen now by what an older baseline says, wherever the older walk looked: what it does not know is new.
    ///
    /// `at` is where the directory of the older baseline lies in this mount; empty when it is the mount itself or contains it.
    pub(super) fn inherit(mut self, older: &Self, at: &Path) -> Self {
        let looked = |place: &Path| {
            let is_hidden = || place.ancestors().skip(1).any(|above| older.hidden.contains(above));
            // A file owned by this gate may be an ordinary file to the other one.
            let is_own =
                || self.own.iter().any(|own| is_at_or_below(place, own) && !older.holds_gate_owned(place));
            place.starts_with(at) && !is_hidden() && !is_own()
        };
        self.known.retain(|place, _| !looked(place));
        self.links.retain(|place, _| !looked(place));
        self.repositories.retain(|place| !looked(place));
        self.targets.retain(|target| !looked(target.path()));
        for (place, known) in &older.known {
            self.known.entry(place.clone()).or_insert_with(|| known.clone());
        }
        for (place, link) in &older.links {
            self.links.entry(place.clone()).or_insert(*link);
        }
        self.repositories.extend(older.repositories.iter().cloned());
        let missing = older.targets.iter().filter(|target| !self.targets.contains(target));
        let missing: Vec<AutorunTarget> = missing.cloned().collect();
        self.targets.extend(missing);
        self.targets.sort_by(|one, other| one.path().cmp(other.path()));
        self
    }

    fn holds_gate_owned(&self, place: &Path) -> bool {
        self.own.iter().any(|own| is_at_or_below(place, own))
    }

    /// Whether the walk did not look at this place.
    pub(super) fn is_unscanned(&self, place: &Path) -> bool {
        place.ancestors().any(|above| self.hidden.contains(above))
    }

    /// The baseline for a mount that lies at `place` in this one; `None` when the walk did not look there.
    pub(super) fn below(&self, place: &Path) -> Option<Self> {
        if self.is_unscanned(place) {
            return None;
        }
        let folded = PathBuf::from(fold(place).into_owned());
        let inner = |path: &Path| strip(path, place);
        Some(Self {
            own: self.own.iter().filter_map(|own| strip(own, &folded)).collect(),
            ..self.map_places(inner)
        })
    }

    /// The baseline for a mount that contains this one at `place`.
    pub(super) fn within(&self, place: &Path) -> Self {
        let folded = PathBuf::from(fold(place).into_owned());
        Self {
            own: self.own.iter().map(|own| folded.join(own)).collect(),
            ..self.map_places(|path| Some(place.join(path)))
        }
    }

    fn map_places(&self, place: impl Fn(&Path) -> Option<PathBuf>) -> Self {
        let set = |places: &HashSet<PathBuf>| places.iter().filter_map(|path| place(path)).collect();
        Self {
            known: self
                .known
                .iter()
                .filter_map(|(path, known)| Some((place(path)?, known.map_places(&place))))
                .collect(),
            hidden: set(&self.hidden),
            targets: self.targets.iter().filter_map(|target| target.map_places(&place)).collect(),
            links: self.links.iter().filter_map(|(path, link)| Some((place(path)?, *link))).collect(),
            repositories: set(&self.repositories),
            own: HashSet::new(),
        }
    }
}

fn is_at_or_below(place: &Path, own: &Path) -> bool {
    Path::new(&*fold(place)).starts_with(own)
}

fn strip(path: &Path, place: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(place).ok()?;
    (!rest.as_os_str().is_empty()).then(|| rest.to_path_buf())
}

impl Codec for Baseline {
    fn encode(&self, out: &mut Vec<u8>) {
        self.known.encode(out);
        self.hidden.encode(out);
        self.targets.encode(out);
        self.links.encode(out);
        self.repositories.encode(out);
        self.own.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        Some(Self {
            known: Codec::decode(input)?,
            hidden: Codec::decode(input)?,
            targets: Codec::decode(input)?,
            links: Codec::decode(input)?,
            repositories: Codec::decode(input)?,
            own: Codec::decode(input)?,
        })
    }
}
