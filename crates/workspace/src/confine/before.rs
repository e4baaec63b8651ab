//! The baseline: what there was in a mount before commands ran in it. What is there later is compared with this.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::codec::Codec;
use super::ground::{Ground, Identity};
use super::look::{Known, Seal, Sightings};
use super::targets::Target;
use crate::fold::fold;

/// What there was before commands ran. All places are relative to the mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    /// What there was of all that is judged.
    pub(super) known: HashMap<PathBuf, Known>,
    /// Directories that the walk did not look into, so that nothing is known of what they hold.
    pub(super) hidden: HashSet<PathBuf>,
    /// What git is made to obey, in the order of their places.
    pub(super) targets: Vec<Target>,
    /// Symlinks with a protected name: those cannot be covered.
    pub(super) links: HashMap<PathBuf, Identity>,
    pub(super) repositories: HashSet<PathBuf>,
    /// The gate's own files and directories, as folded places. Another gate has others.
    pub(super) own: HashSet<PathBuf>,
}

impl Before {
    /// Takes what the first walk remembered out of what it saw.
    pub(super) fn take(seen: &mut Sightings, ground: &Ground<'_>) -> Self {
        let is_hidden = |(place, seal): &(PathBuf, Seal)| {
            matches!(seal, Seal::Hide { directory: true }).then(|| place.clone())
        };
        let mut targets = std::mem::take(&mut seen.targets);
        targets.sort_by(|one, other| one.place().cmp(other.place()));
        Self {
            known: std::mem::take(&mut seen.known),
            hidden: seen.seals.iter().filter_map(is_hidden).collect(),
            targets,
            links: seen.links.iter().cloned().collect(),
            repositories: seen.repositories.iter().cloned().collect(),
            own: ground.own_places().collect(),
        }
    }

    /// Puts what an older baseline says in place of what was seen now, wherever the older walk looked: what it does not know is new.
    ///
    /// `at` is where the directory of the older baseline lies in this mount, and empty when it is the mount or around it.
    pub(super) fn inherit(mut self, older: &Self, at: &Path) -> Self {
        let looked = |place: &Path| {
            let is_hidden = || place.ancestors().skip(1).any(|above| older.hidden.contains(above));
            // What is this gate's own may be any file to the other one.
            let is_own = || self.own.iter().any(|own| is_at_or_below(place, own) && !older.holds_own(place));
            place.starts_with(at) && !is_hidden() && !is_own()
        };
        self.known.retain(|place, _| !looked(place));
        self.links.retain(|place, _| !looked(place));
        self.repositories.retain(|place| !looked(place));
        self.targets.retain(|target| !looked(target.place()));
        for (place, known) in &older.known {
            self.known.entry(place.clone()).or_insert_with(|| known.clone());
        }
        for (place, link) in &older.links {
            self.links.entry(place.clone()).or_insert(*link);
        }
        self.repositories.extend(older.repositories.iter().cloned());
        let missing = older.targets.iter().filter(|target| !self.targets.contains(target));
        let missing: Vec<Target> = missing.cloned().collect();
        self.targets.extend(missing);
        self.targets.sort_by(|one, other| one.place().cmp(other.place()));
        self
    }

    fn holds_own(&self, place: &Path) -> bool {
        self.own.iter().any(|own| is_at_or_below(place, own))
    }

    /// Whether the walk did not look at this place.
    pub(super) fn hides(&self, place: &Path) -> bool {
        place.ancestors().any(|above| self.hidden.contains(above))
    }

    /// The same for a mount that lies at `place` in this one; `None` when the walk did not look there.
    pub(super) fn below(&self, place: &Path) -> Option<Self> {
        if self.hides(place) {
            return None;
        }
        let folded = PathBuf::from(fold(place).into_owned());
        let inner = |path: &Path| strip(path, place);
        Some(Self {
            own: self.own.iter().filter_map(|own| strip(own, &folded)).collect(),
            ..self.moved(inner)
        })
    }

    /// The same for a mount around this one, in which this one lies at `place`.
    pub(super) fn within(&self, place: &Path) -> Self {
        let folded = PathBuf::from(fold(place).into_owned());
        Self {
            own: self.own.iter().map(|own| folded.join(own)).collect(),
            ..self.moved(|path| Some(place.join(path)))
        }
    }

    fn moved(&self, place: impl Fn(&Path) -> Option<PathBuf>) -> Self {
        let set = |places: &HashSet<PathBuf>| places.iter().filter_map(|path| place(path)).collect();
        Self {
            known: self
                .known
                .iter()
                .filter_map(|(path, known)| Some((place(path)?, known.moved(&place))))
                .collect(),
            hidden: set(&self.hidden),
            targets: self.targets.iter().filter_map(|target| target.moved(&place)).collect(),
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

impl Codec for Before {
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
